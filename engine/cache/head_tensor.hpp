#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cache/centring.hpp"
#include "engine/cache/exact_cache.hpp"
#include "engine/cache/layer_codes.hpp"
#include "engine/cache/outliers.hpp"
#include "engine/cache/quantized_rows.hpp"
#include "engine/cache/rotation.hpp"
#include "engine/cache/window.hpp"

namespace dgap::engine {

/// The rows of an exact prefix that one tensor of one layer and head continues, as FP16 values.
struct PrefixRows {
  enum class Tensor { keys, keys_before_rope, values };
  const ExactCache* cache = nullptr;
  Tensor tensor = Tensor::keys;
  int layer = 0, head = 0;

  /// out [to - from, head_dim].
  void read(std::int64_t from, std::int64_t to, float* out) const;
};

/// One tensor (K or V) of one layer and head of a quantised cache: FP16 copies of the sinks and of
/// the newest tokens, codes of the others. Exact tokens of the prefix are read from the prefix,
/// which is shared.
class HeadTensor {
 public:
  /// What all heads of a tensor have in common.
  struct Plan {
    schemas::TensorScheme scheme;
    Window window;
    int head_dim = 0;
    std::int64_t sinks = 0;
    std::int64_t prefix_length = 0;
    std::shared_ptr<const Rotation> rotation;  // null where the scheme does not rotate
    std::shared_ptr<const Codec> codec;        // null where it is exact

    bool exact() const { return scheme.quantizer == schemas::Quantizer::exact; }
  };

  /// `plan` must outlive the tensor, and so must `layer`: the codes of all heads of the layer,
  /// where the scheme's span them, which somebody else appends to.
  HeadTensor(const Plan& plan, const PrefixRows& prefix, const LayerCodes* layer);

  /// Takes statistics over the prefix without the sinks.
  void begin();
  /// Takes what the codec keeps, from rows [begin, end) that `read` gives, or from the prefix as it
  /// is coded.
  void calibrate(std::int64_t begin, std::int64_t end, const RowReader& read);
  void calibrate();
  /// Rows of the prefix, as they are coded.
  void read_transformed(std::int64_t from, std::int64_t to, float* out) const;
  /// Then quantises what has left the window.
  void begin_codes();

  /// Tokens [0, length()) are held, [plan.sinks, quantised_end()) of them as codes.
  std::int64_t length() const { return recent_.end(); }
  std::int64_t quantised_end() const { return plan_->sinks + quantised(); }
  std::int64_t quantised() const { return layer_ != nullptr ? layer_->size() : codes_.size(); }
  /// Where the codes should end at this length.
  std::int64_t due_end() const { return plan_->window.quantised_end(length()); }

  /// Appends exact rows that lie `stride` floats apart; with `rope`, rotated to their positions
  /// first.
  void append(std::int64_t rows, const float* x, std::int64_t stride, const RopeTable* rope);
  /// After rows from position `first` on have been appended: quantises what has left the window,
  /// and forgets the exact copies that none of those rows sees.
  void advance(std::int64_t first);

  /// The FP16 values of [from, to), which are not codes yet.
  void read_source(std::int64_t from, std::int64_t to, float* out) const;
  /// The FP16 copies of [from, to).
  void read_exact(std::int64_t from, std::int64_t to, float* out) const;
  /// Decoded rows of [from, to) in the space they are stored in: centred, normalised, rotated.
  void read_stored(std::int64_t from, std::int64_t to, float* out) const;
  /// From the centred and normalised space into it, in place: queries, where keys are read so.
  void rotate(std::int64_t rows, float* x) const;
  /// From that space to the tensor's own, in place; with `rope`, rotated to positions from `first`
  /// on.
  void restore(std::int64_t first, std::int64_t rows, const RopeTable* rope, float* x) const;
  /// The same of weighted sums of rows, whose weights sum to mass [rows].
  void restore_sums(std::int64_t rows, const float* mass, float* x) const;

  const Plan& plan() const { return *plan_; }
  const QuantizedRows& codes() const { return codes_; }
  const Centring& centring() const { return centring_; }
  const Outliers& outliers() const { return outliers_; }
  /// Bytes of its codes; the first head's has those of the layer.
  std::int64_t code_bytes() const;
  /// Bytes that are kept whatever its length: statistics, the codec's parameters, outliers.
  std::int64_t constant_bytes() const;

 private:
  void quantise(std::int64_t end);
  void unrotate(std::int64_t rows, float* x) const;

  const Plan* plan_;
  PrefixRows prefix_;
  Rows sinks_, recent_;  // recent_: tokens of the window and of the block, not of the prefix
  Centring centring_;
  Outliers outliers_;
  QuantizedRows codes_;
  const LayerCodes* layer_;  // in place of codes_, or null
};

}  // namespace dgap::engine
