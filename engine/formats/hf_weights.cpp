#include "engine/formats/hf_weights.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "engine/formats/hf_config.hpp"
#include "engine/formats/named_weights.hpp"
#include "engine/formats/safetensors_file.hpp"
#include "schemas/bundle/strict_json.hpp"

namespace dgap::engine {
namespace {

namespace fs = std::filesystem;

constexpr TensorNaming kNaming{
    "model.layers.",
    {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight", "input_layernorm.weight",
     "post_attention_layernorm.weight", "self_attn.q_proj.weight", "self_attn.k_proj.weight",
     "self_attn.v_proj.weight", "self_attn.o_proj.weight", "mlp.gate_proj.weight",
     "mlp.up_proj.weight", "mlp.down_proj.weight", "self_attn.q_proj.bias", "self_attn.k_proj.bias",
     "self_attn.v_proj.bias", "self_attn.o_proj.bias"},
    false};
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::uint64_t kMaxJson = std::uint64_t{64} << 20;

/// What cannot be told counts as there, so that opening it says why.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) || error;
}

/// The weight files of a folder, by name, and which of them holds which tensor.
class Shards {
 public:
  explicit Shards(const fs::path& folder) : folder_(folder) {
    const std::vector<std::string> present = safetensors_files();
    if (is_there(folder / kIndex)) {
      read_index();
      note_strays(present);
    } else {
      for (const std::string& name : present) open(name);
      if (present.empty())
        throw base::IoError(folder.string() +
                            ": holds no safetensors file; weights in other formats "
                            "(pytorch_model.bin) must be converted first");
    }
    for (const auto& [name, file] : files_) add_tensors(name, *file);
    check_index();
  }

  struct Place {
    const SafetensorsFile* file;
    const StoredTensor* tensor;
  };
  const std::map<std::string, Place, std::less<>>& tensors() const { return tensors_; }
  const std::map<std::string, std::unique_ptr<const SafetensorsFile>>& files() const {
    return files_;
  }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  [[noreturn]] void index_error(const std::string& what) const {
    throw base::IoError((folder_ / kIndex).string() + ": " + what);
  }

  std::vector<std::string> safetensors_files() const {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error))
      if (at->path().extension() == ".safetensors") names.push_back(at->path().filename().string());
    if (error) throw base::IoError(folder_.string() + ": cannot be listed: " + error.message());
    std::sort(names.begin(), names.end());
    return names;
  }

  void open(const std::string& name) {
    files_[name] = std::make_unique<const SafetensorsFile>((folder_ / name).string());
  }

  void read_index() {
    const std::string path = (folder_ / kIndex).string();
    const nlohmann::json index =
        schemas::parse_json_object(base::read_file(path, kMaxJson), path, 4);
    const auto map = index.find("weight_map");
    if (map == index.end() || !map->is_object() || map->empty())
      index_error("weight_map is missing, or not an object of file names");
    for (const auto& [tensor, file] : map->items()) {
      if (!file.is_string()) index_error("the tensor " + in_quotes(tensor) + " has no file name");
      index_[tensor] = file.get<std::string>();
      open_shard(tensor, index_[tensor]);
    }
  }

  void open_shard(const std::string& tensor, const std::string& name) {
    if (files_.contains(name)) return;
    if (name.empty() || name.front() == '.' || name.find_first_of("/\\") != std::string::npos)
      index_error("the tensor " + in_quotes(tensor) + " is in " + in_quotes(name) +
                  "; the name of a file in the same folder is expected");
    if (!is_there(folder_ / name))
      throw base::IoError((folder_ / name).string() +
                          ": is missing; the index says that it holds " + in_quotes(tensor) +
                          ", among others");
    open(name);
  }

  void note_strays(const std::vector<std::string>& present) {
    for (const std::string& name : present)
      if (!files_.contains(name))
        notes_.push_back((folder_ / name).string() + ": is not in the index, and not read");
  }

  void add_tensors(const std::string& file_name, const SafetensorsFile& file) {
    for (const SafetensorsFile::Tensor& tensor : file.tensors()) {
      const auto [place, added] = tensors_.try_emplace(tensor.name, Place{&file, &tensor.stored});
      if (!added)
        throw base::IoError(file.path() + ": holds the tensor " + in_quotes(tensor.name) +
                            ", and so does " + place->second.file->path());
      if (index_.empty()) continue;
      const auto entry = index_.find(tensor.name);
      if (entry == index_.end())
        throw base::IoError(file.path() + ": holds the tensor " + in_quotes(tensor.name) +
                            ", which the index does not list");
      if (entry->second != file_name)
        throw base::IoError(file.path() + ": holds the tensor " + in_quotes(tensor.name) +
                            "; the index says that it is in " + in_quotes(entry->second));
    }
  }

  void check_index() const {
    for (const auto& [tensor, file] : index_)
      if (!tensors_.contains(tensor))
        throw base::IoError((folder_ / file).string() + ": does not hold the tensor " +
                            in_quotes(tensor) + ", although the index says so");
  }

  fs::path folder_;
  std::map<std::string, std::string> index_;  // file names by tensor
  std::map<std::string, std::unique_ptr<const SafetensorsFile>> files_;
  std::map<std::string, Place, std::less<>> tensors_;
  std::vector<std::string> notes_;
};

/// What a folder holds, for the lifetime of the weights.
struct Folder {
  explicit Folder(const fs::path& path) : config(path / "config.json"), shards(path) {}
  base::MappedFile config;
  Shards shards;
};

/// A tied model may bring its output matrix along, when it is the embedding.
bool is_tied_copy(const std::string& name, const HyperParameters& p, const Shards& shards) {
  if (name != kNaming.names[static_cast<std::size_t>(WeightRole::output_matrix)]) return false;
  if (!p.tied_embeddings) return false;
  const StoredTensor& head = *shards.tensors().find(name)->second.tensor;
  const auto embedding = shards.tensors().find(kNaming.names[0]);
  if (embedding == shards.tensors().end()) return false;
  const StoredTensor& other = *embedding->second.tensor;
  if (head.type == other.type && head.shape == other.shape &&
      std::ranges::equal(head.data, other.data))
    return true;
  throw base::IoError(shards.tensors().find(name)->second.file->path() + ": " + in_quotes(name) +
                      " differs from the embedding, but config.json says tie_word_embeddings");
}

}  // namespace

std::unique_ptr<WeightSource> open_hf_weights(const std::string& folder) {
  const fs::path path(folder);
  const std::string config = (path / "config.json").string();
  if (!is_there(config))
    throw base::IoError(folder + ": is not a Hugging Face model: config.json is missing");
  NamedWeights::Contents contents;
  contents.path = folder;
  contents.parameters = read_hf_config(base::read_file(config, kMaxJson), config);
  const auto opened = std::make_shared<const Folder>(path);
  std::error_code error;
  contents.parameters.name = fs::weakly_canonical(path, error).filename().string();
  for (const std::string& note : opened->shards.notes()) contents.parameters.notes.push_back(note);
  contents.naming = kNaming;
  for (const auto& [name, place] : opened->shards.tensors()) {
    if (name.ends_with("rotary_emb.inv_freq")) continue;  // older files; follows from the config
    if (is_tied_copy(name, contents.parameters, opened->shards)) continue;
    contents.tensors.emplace(name, *place.tensor);
  }
  contents.files.push_back({"config.json", opened->config.bytes()});
  for (const auto& [name, file] : opened->shards.files())
    contents.files.push_back({name, file->bytes()});
  contents.storage = opened;
  return std::make_unique<NamedWeights>(std::move(contents));
}

}  // namespace dgap::engine
