#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

/// Bundles with one thing wrong, and everything else as a reader wants it: sizes and hashes follow.
namespace dgap::test {

class Damage {
 public:
  explicit Damage(std::filesystem::path bundle) : place_(std::move(bundle)) {}

  std::filesystem::path operator/(const std::string& name) const { return place_ / name; }
  std::string bytes(const std::string& name) const;
  void put(const std::string& name, std::string_view bytes) const;
  /// `name` becomes a file of `size` bytes that takes no room on the disk.
  void put_sparse(const std::string& name, std::int64_t size) const;

  using Change = std::function<void(nlohmann::json&)>;
  /// A manifest of these bytes, or with this change.
  void manifest(const std::string& text) const;
  void manifest(const Change& change) const;
  /// The first `from` of the manifest's text is `to` now.
  void manifest_text(const std::string& from, const std::string& to) const;
  /// Weights of these bytes, or with this change of the header.
  void weights(const std::string& bytes) const;
  void weights_header(const Change& change) const;
  /// The manifest gives the size and hash that the file has.
  void list(const std::string& name) const;

 private:
  std::filesystem::path place_;
};

}  // namespace dgap::test
