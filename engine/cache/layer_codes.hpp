#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "schemas/scheme/calibration.hpp"

namespace dgap::engine {

/// Codes of one tensor of a layer, for quantisers whose thresholds or groups span its KV heads.
/// Token 0 is the first that is not a sink.
class LayerCodes {
 public:
  /// Reads tokens [from, to) of one head into out [to - from, head_dim].
  using HeadReader = std::function<void(int head, std::int64_t from, std::int64_t to, float* out)>;

  virtual ~LayerCodes() = default;
  virtual std::int64_t size() const = 0;
  /// Before a layer takes its next block: what the rows before still read can go.
  virtual void begin_block() {}
  /// Encodes tokens [size(), end).
  virtual void append(std::int64_t end, const HeadReader& read) = 0;
  /// Decodes tokens [from, to) of one head into out [to - from, head_dim].
  virtual void read(int head, std::int64_t from, std::int64_t to, float* out) const = 0;
  /// Bytes in use that grow with the tokens, and those that do not.
  virtual std::int64_t bytes() const = 0;
  virtual std::int64_t constant_bytes() const = 0;
};

/// Null where the codes of the scheme's tensor belong to single heads. `calibration` of that tensor
/// must outlive the codes.
std::unique_ptr<LayerCodes> make_layer_codes(const schemas::TensorScheme& tensor, int heads,
                                             int head_dim,
                                             const schemas::TensorCalibration* calibration);

}  // namespace dgap::engine
