#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "schemas/bundle/bundle.hpp"

namespace dgap::test {

/// A bundle with random networks: precisions "mlp" (threshold, mass output), "linear" (threshold,
/// no mass output), "always" (constant detector, mlp), "off", and "none" (threshold, no corrector).
schemas::Bundle toy_bundle(std::int64_t vocab_size, int window, std::uint64_t seed = 1);
void write_toy_bundle(const std::filesystem::path& directory, const schemas::Bundle& bundle);

/// Random tensors of one network, inputs -> hidden... -> 1.
void add_network(schemas::Tensors& tensors, const std::string& prefix, int inputs,
                 std::initializer_list<int> hidden, std::uint64_t seed);

/// A fresh folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dgap::test
