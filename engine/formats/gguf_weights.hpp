#pragma once
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/formats/gguf_file.hpp"
#include "engine/model/weights.hpp"

namespace dgap::engine {

/// Weights of a `llama` model in a GGUF file. The constructor reads the metadata and checks the
/// tensor directory against it: every tensor present, of the right shape, and none left over.
class GgufWeights final : public WeightSource {
 public:
  explicit GgufWeights(const std::string& path);

  const HyperParameters& parameters() const override { return parameters_; }
  std::vector<float> embedding() const override;
  std::vector<float> output_norm() const override;
  std::vector<float> output_matrix() const override;
  LayerWeights layer(int index) const override;
  std::string sha256() const override;

 private:
  /// `heads` > 0: rows are those of q or k, stored in the order that suits interleaved RoPE.
  struct Expected {
    std::string name;
    std::int64_t rows, columns;
    int heads = 0;
  };
  std::vector<Expected> model_tensors() const;
  std::vector<Expected> layer_tensors(int index) const;
  void check_directory() const;
  void check_shape(const Expected& expected) const;
  void refuse_known_extras(std::string_view name) const;
  std::vector<float> read(const Expected& expected) const;

  GgufFile file_;
  HyperParameters parameters_;
  mutable std::once_flag hashed_;
  mutable std::string sha256_;
};

}  // namespace dgap::engine
