#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace dgap::schemas {

/// How the codes of a group are made from its values x (docs/schemes.md "What is stored").
enum class Quantizer {
  exact,            // FP16, no codes (bits = 16)
  sign_mean,        // 1 bit:  sign(x) * mean|x|, sign(0) = +1
  lloyd_max,        // 2..4 bits: levels of a unit normal * RMS; at 2 {-1.510, -.4528, .4528, 1.510}
  symmetric,        // 2, 3, 4, 8 bits: s = max|x| / (2^(b-1) - 1), q = rne(x / s)
  asymmetric,       // 1, 2, 3, 4, 8 bits: min, s = (max - min) / (2^b - 1), q = rne((x - min) / s)
  asymmetric_fp16,  // the same with every step rounded to FP16, as KIVI computes it
  codebook,         // 1..4 bits: the scheme's own levels * max|x|
  normal_float,     // 2..4 bits: levels of arXiv:2305.14314 (NF4 and its kin) * max|x|
  q8_0,             // llama.cpp's blocks of 32 channels
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  iq4_nl,
  fp8_e4m3,  // 8 bits: x / scale as a float of 4 + 3 bits, one scale a head
  fp8_e5m2,
  turboquant_mse,   // 1..4 bits: norm and, rotated, Lloyd-Max codes of the direction
  turboquant_prod,  // 1..4 bits: the same with b - 1 bits, and a sign sketch of the residual
  kvarn,            // 1, 2, 3, 4, 8 bits: tiles of tokens x channels of normalised variance
  kvquant,          // 2..4 bits: calibrated levels, outliers kept exactly, over a whole layer
  quanto,           // 2, 4 bits: optimum-quanto's affine codes in FP16 (transformers)
  hqq               // 1, 2, 3, 4, 8 bits: hqq's affine codes, by its solver (transformers)
};

/// Which values share a scale: `token` = channels of one token and head; `channel` = consecutive
/// tokens of one channel.
enum class GroupAxis { token, channel };

/// When the tokens of a tensor become codes; R is the scheme's residual window. `sliding`: to a row
/// the newest max(R, 1) tokens are exact, its own included. `lagging`: its own and the R before it
/// (KIVI's values). `flush`: its own and those since the last flush; when R have gathered, all of
/// them become codes after that row's attention (KIVI's keys). `none`: not even its own is exact
/// (llama.cpp, vLLM). `requantize`: the whole prefix becomes codes at once; then as `flush`, and
/// each time all there is is read and coded anew (transformers' QuantizedCache).
enum class WindowRule { sliding, lagging, flush, none, requantize };
/// The rotation of a tensor with `rotate`. `signed_hadamard`: random signs, then H over head_dim, a
/// power of two. `hadamard`: without signs. `hadamard_blocks`: H_n over blocks of n channels, n the
/// largest power of two that divides head_dim, and `hadamard_64`: n = 64; neither rotates where 64
/// does not divide head_dim (llama.cpp's rule for keys and for values). `haar`: a random orthogonal
/// matrix, any head_dim.
enum class RotationKind { signed_hadamard, hadamard, hadamard_blocks, hadamard_64, haar };

/// The random matrix that turboquant_prod sketches residuals with.
enum class SketchKind { gaussian, orthonormal };

/// What a scheme's prefill attends to: the exact keys and values (KIVI, HF, the presets), or the
/// quantised ones (llama.cpp, vLLM).
enum class PrefillMode { exact, quantized };

/// One tensor (K or V) of a scheme.
struct TensorScheme {
  int bits = 16;  // 1, 2, 3, 4, 5, 8; 16 = exact
  Quantizer quantizer = Quantizer::exact;
  GroupAxis axis = GroupAxis::token;
  int group_size = 0;   // values that share a scale; 0 = head_dim
  bool center = false;  // minus the per-channel prefix mean (FP16)
  bool normalize =
      false;  // divided by the per-channel prefix RMS (FP16), floor 1e-6... see schemes.md
  bool rotate = false;  // over the head's channels, by the rotation below
  RotationKind rotation = RotationKind::signed_hadamard;
  WindowRule window = WindowRule::sliding;
  std::vector<float> levels = {};  // codebook: 2^bits ascending levels in [-1, 1]
  float scale = 0.0f;  // fp8: one for all values; 0 = the prefix's largest |x| / 448 (57344)
  bool layer_scale = false;      // fp8: the prefix's largest |x| over all KV heads of the layer
  bool norm_correction = false;  // turboquant_mse: the read keeps the norm (vLLM)
  /// turboquant: bits of the quarter of the channels with the largest prefix RMS, which are an
  /// instance of their own; 0 = one instance.
  int outlier_bits = 0;
  SketchKind sketch = SketchKind::gaussian;  // turboquant_prod
  int iterations = 8;                        // kvarn: of the variance normalisation
  double outliers = 0.0;  // kvquant: share of values that are kept exactly, half at either end
  bool q_norm = false;    // kvquant: reads have the mean and deviation of what was coded
  bool operator==(const TensorScheme&) const = default;
};

/// A part of the model whose tensors are other than the scheme's: the given KV heads of the given
/// layers; empty lists mean all of them.
struct Override {
  std::vector<int> layers = {}, heads = {};  // from 0, ascending
  std::optional<TensorScheme> key = {}, value = {};
  bool operator==(const Override&) const = default;
};

/// A fully specified quantiser of the key/value cache. Presets by name, everything overridable.
struct Scheme {
  std::string name;                // the precision's name, [A-Za-z0-9._-]+
  std::string family = "centred";  // docs/schemes.md; custom: tensors of its own
  TensorScheme key;
  TensorScheme value;
  bool key_before_rope = false;  // codes, residual window and sinks hold K before RoPE
  int residual_window = 0;  // R: the newest tokens that are exact, by each tensor's window rule
  int sink_tokens = 0;      // the first tokens, exact for ever
  PrefillMode prefill = PrefillMode::exact;
  std::uint64_t rotation_seed = 0;  // of the random signs
  std::vector<Override> overrides;  // of key and value; the last one that fits a head is used
  int model_layers = 0, model_kv_heads = 0;  // of the model that overrides are for; 0: any
  int boundary_layers = 0;  // so many first and last layers are exact, but for overrides
  std::string calibration;  // file of thresholds and levels (kvquant); empty: made by the run
  std::string calibration_sha256;  // of that file; empty before it is known
  bool operator==(const Scheme&) const = default;
};

/// The tensors of one layer and KV head.
struct HeadScheme {
  TensorScheme key, value;
  bool operator==(const HeadScheme&) const = default;
};
/// `layers`: of the model, which boundary_layers counts from the end of.
HeadScheme head_scheme(const Scheme& scheme, int layers, int layer, int head);

/// Whether the codes of a tensor depend on all KV heads of a layer.
inline bool spans_heads(const TensorScheme& tensor) {
  return tensor.quantizer == Quantizer::kvquant || tensor.quantizer == Quantizer::quanto ||
         tensor.quantizer == Quantizer::hqq;
}
/// Whether a tensor of the scheme has thresholds and levels from a calibration file.
bool needs_calibration(const Scheme& scheme);

/// Tokens that are encoded together.
inline int tokens_per_step(const TensorScheme& tensor) {
  if (spans_heads(tensor)) return 1;
  const bool tile = tensor.axis == GroupAxis::channel || tensor.quantizer == Quantizer::kvarn;
  return tile ? tensor.group_size : 1;
}
/// Channels of turboquant's outlier instance; 0 without.
inline int outlier_channels(const TensorScheme& tensor, int head_dim) {
  return tensor.outlier_bits == 0 ? 0 : head_dim / 4;
}

/// The preset of that name: [centred-|rotated-|uniform-]K<b>V<b>[-R<n>][-S<n>], b in 1, 2, 3, 4,
/// 8, 16; `exact` = K16V16. Without a family: centred (sinks 4); rotated and uniform have no sinks.
/// kivi-<b>[-g<n>][-R<n>], b in 1, 2, 3, 4, 8; without g and R: 32 and 128.
/// asymkv-<k>-<v>[-g<n>][-R<n>], arXiv:2410.13212: KIVI with 2 bits for the keys of the first k and
/// the values of the first v layers, 1 bit for all others.
/// UsageError with the grammar and the nearest name otherwise.
Scheme preset(std::string_view name);

/// What a scheme has to fit; 0: not known.
struct ModelShape {
  int head_dim = 0, layers = 0, kv_heads = 0;
};

/// Checks ranges, combinations and, as far as the model is known, that groups divide head_dim, that
/// a rotated head_dim is a power of two and that overrides are of layers and heads there are.
/// UsageError naming key, value and remedy.
void validate(const Scheme& scheme, const ModelShape& model = {});

/// The JSON object that traces and bundles carry, and back. Reading also takes `preset`, a preset's
/// name, whose values the other keys override (family becomes custom where they change a tensor),
/// and gives `bits` without `quantizer` the preset's quantiser of those bits. UsageError, naming
/// `where`, on unknown or mistyped keys and on whatever validate refuses.
nlohmann::json to_json(const Scheme& scheme);
Scheme scheme_from_json(const nlohmann::json& object, std::string_view where);

/// Overrides as a list [{"layers": "0-3,7", "heads": "1", "key": {...}, "value": {...}}] ; in
/// reading, the given keys of a tensor change those of `scheme`, and no `layers` or `heads` means
/// all. UsageError, naming `where`.
nlohmann::json overrides_to_json(const std::vector<Override>& overrides);
std::vector<Override> overrides_from_json(const nlohmann::json& list, const Scheme& scheme,
                                          std::string_view where);

}  // namespace dgap::schemas
