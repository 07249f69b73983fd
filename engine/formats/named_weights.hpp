#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/formats/gguf_types.hpp"
#include "engine/model/weights.hpp"

namespace dgap::engine {

/// A tensor as it lies in a file.
struct StoredTensor {
  GgufTensorType type = GgufTensorType::f32;
  std::vector<std::int64_t> shape;  // in the file's own order
  std::span<const std::byte> data;
};

/// How a format names and lays out the tensors of a model.
struct TensorNaming {
  std::string_view layer_prefix;  // before the layer's number; a dot follows it
  std::array<std::string_view, std::size(kModelRoles) + std::size(kLayerRoles)> names;  // by role
  bool columns_first;                                                                   // in shapes
};

/// A model whose tensors are found by name. The constructor checks the directory against the
/// hyper-parameters: every tensor present, of the right shape, and none left over (IoError). Pages
/// of the files that have been read are given back, so that only the decoder's copy stays resident.
class NamedWeights final : public WeightSource {
 public:
  struct File {
    std::string name;
    std::span<const std::byte> bytes;
  };
  struct Contents {
    std::string path;  // of the model, for messages
    HyperParameters parameters;
    TensorNaming naming;
    /// Rows of q and k (and their biases) are stored in the order that suits interleaved RoPE.
    bool interleaved = false;
    std::unordered_map<std::string_view, StoredTensor> tensors;
    std::vector<File> files;              // in order of their names
    std::shared_ptr<const void> storage;  // what all views point into
  };
  explicit NamedWeights(Contents contents);

  const HyperParameters& parameters() const override { return contents_.parameters; }
  void read(WeightRole role, int layer, const WeightRowSink& sink) const override;
  std::map<std::string, int> stored_types() const override;
  std::string sha256() const override;

 private:
  std::string name_of(WeightRole role, int layer) const;
  std::vector<std::int64_t> shape_of(WeightRole role) const;
  void check_shape(const std::string& name, WeightRole role) const;
  void refuse_others(std::size_t consumed) const;
  bool interleaved(WeightRole role) const;

  Contents contents_;
  mutable std::once_flag hashed_;
  mutable std::string sha256_;
};

}  // namespace dgap::engine
