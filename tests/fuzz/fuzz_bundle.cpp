// Any manifest and weights are a bundle, whose restorers then serve rows, or a status with a
// message: through the C ABI. Sizes and hashes are put right first, because no random bytes would
// pass them. The input holds kBundleFiles (folder.hpp).
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/sha256.hpp"
#include "runtime/include/dgap/runtime.h"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/folder.hpp"

namespace {

using namespace dgap;
using nlohmann::json;

constexpr std::int64_t kMaxVocabulary = 4096, kMaxHidden = 4096;

/// The manifest with sizes and hashes of what it lists; as it is where it lists nothing.
std::string with_hashes(const std::string& manifest, const std::string& weights) {
  json root = json::parse(manifest, nullptr, false);
  if (!root.is_object() || !root.contains("files") || !root["files"].is_array()) return manifest;
  for (json& file : root["files"]) {
    if (!file.is_object() || !file.contains("path")) continue;
    const std::string text = file["path"] == "weights.safetensors" ? weights : "{}";
    file["size"] = text.size();
    file["sha256"] = base::sha256_hex(text);
  }
  return root.dump(-1, ' ', false, json::error_handler_t::replace);
}

void fill(const fuzz::Folder& folder, std::string_view bytes) {
  const auto files = fuzz::unpack(bytes, std::size(fuzz::kBundleFiles));
  const std::string weights = files[1].value_or("");
  const std::string manifest = with_hashes(files[0].value_or(""), weights);
  folder.put("manifest.json", manifest);
  folder.put("weights.safetensors", weights);
  folder.put("calibration.json", "{}");
  folder.put("README.md", "{}");
  folder.put("SHA256SUMS", base::sha256_hex(manifest) + "  manifest.json\n" +
                               base::sha256_hex("{}") + "  calibration.json\n" +
                               base::sha256_hex("{}") + "  README.md\n" +
                               base::sha256_hex(weights) + "  weights.safetensors\n");
}

/// Every row has a verdict, whatever the networks hold.
void serve(const dgap_bundle* bundle, const char* precision) {
  dgap_restorer* restorer = nullptr;
  if (dgap_restorer_create(bundle, precision, &restorer) != DGAP_OK) return;
  const std::int64_t vocabulary = dgap_bundle_vocab_size(bundle);
  std::vector<float> row(static_cast<std::size_t>(vocabulary));
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i * 37 % 101) * 0.25f;
  std::vector<float> state(static_cast<std::size_t>(dgap_bundle_hidden_size(bundle)), 0.5f);
  const dgap_logits view = {row.data(), DGAP_F32, 1, vocabulary, 0, 4};
  const dgap_logits hidden = {state.data(), DGAP_F32, 1, std::ssize(state), 0, 4};
  dgap_context* context = nullptr;
  if (dgap_context_create(bundle, 0, &context) != DGAP_OK) std::abort();
  const std::vector<std::int32_t> text(9, 0);
  if (dgap_context_begin(context, text.data(), std::ssize(text)) != DGAP_OK) std::abort();
  dgap_controller* controller = nullptr;
  if (dgap_controller_create(bundle, precision, &controller) == DGAP_OK)
    dgap_restorer_set_controller(restorer, controller);
  dgap_result scored{}, result{-1, 0, 0};
  if (dgap_restorer_score(restorer, &view, &scored) != DGAP_OK ||
      dgap_restorer_restore_with(restorer, &context, &hidden, &view, &result) != DGAP_OK ||
      result.verdict < DGAP_KEEP || result.verdict > DGAP_REJECTED) {
    std::abort();
  }
  dgap_controller_destroy(controller);
  dgap_context_destroy(context);
  dgap_restorer_destroy(restorer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  fill(folder, {reinterpret_cast<const char*>(data), size});
  dgap_bundle* bundle = nullptr;
  if (dgap_bundle_open(folder.path().c_str(), &bundle) != DGAP_OK) {
    if (bundle != nullptr || *dgap_last_error() == '\0') std::abort();
    return 0;
  }
  if (dgap_bundle_vocab_size(bundle) <= kMaxVocabulary &&
      dgap_bundle_hidden_size(bundle) <= kMaxHidden) {
    for (std::int32_t i = 0; i < dgap_bundle_precision_count(bundle); ++i)
      serve(bundle, dgap_bundle_precision_name(bundle, i));
  }
  dgap_bundle_close(bundle);
  return 0;
}
