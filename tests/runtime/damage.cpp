#include "tests/runtime/damage.hpp"

#include <cstring>
#include <fstream>

#include "base/files.hpp"
#include "base/sha256.hpp"

namespace dgap::test {

using nlohmann::json;

std::string Damage::bytes(const std::string& name) const { return base::read_file(place_ / name); }

void Damage::put(const std::string& name, std::string_view bytes) const {
  std::ofstream(place_ / name, std::ios::binary) << bytes;
}

void Damage::put_sparse(const std::string& name, std::int64_t size) const {
  put(name, "");
  std::filesystem::resize_file(place_ / name, static_cast<std::uintmax_t>(size));
}

void Damage::manifest(const std::string& text) const {
  std::string sums = bytes("SHA256SUMS");
  put("SHA256SUMS", sums.replace(0, 64, base::sha256_hex(text)));
  put("manifest.json", text);
}

void Damage::manifest(const Change& change) const {
  json manifest = json::parse(bytes("manifest.json"));
  change(manifest);
  this->manifest(manifest.dump());
}

void Damage::manifest_text(const std::string& from, const std::string& to) const {
  std::string text = bytes("manifest.json");
  manifest(text.replace(text.find(from), from.size(), to));
}

void Damage::weights(const std::string& bytes) const {
  put("weights.safetensors", bytes);
  list("weights.safetensors");
}

void Damage::weights_header(const Change& change) const {
  const std::string whole = bytes("weights.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof length);
  json header = json::parse(whole.substr(8, length));
  change(header);
  const std::string text = header.dump();
  std::string start(8, '\0');
  const std::uint64_t size = text.size();
  std::memcpy(start.data(), &size, sizeof size);
  weights(start + text + whole.substr(8 + length));
}

void Damage::list(const std::string& name) const {
  const std::string hash = base::sha256_of_file(place_ / name);
  std::string sums = bytes("SHA256SUMS");
  put("SHA256SUMS", sums.replace(sums.find("  " + name) - 64, 64, hash));
  manifest([&](json& m) {
    for (json& file : m["files"]) {
      if (file["path"] != name) continue;
      file["size"] = std::filesystem::file_size(place_ / name);
      file["sha256"] = hash;
    }
  });
}

}  // namespace dgap::test
