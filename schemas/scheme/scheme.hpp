#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace dgap::schemas {

/// How the codes of one group are made from its values x (docs/schemes.md, method.md "centred").
enum class Quantizer {
  exact,           // FP16, no codes (bits = 16)
  sign_mean,       // 1 bit:  sign(x) * mean|x|, sign(0) = +1
  lloyd_max,       // 2 bits: levels {-1.510, -.4528, .4528, 1.510} * RMS, threshold .9816 * RMS
  symmetric,       // 2, 4, 8 bits: s = max|x| / (2^(b-1) - 1), q = rne(x / s) in [-(2^(b-1)-1),
                   // 2^(b-1)-1]
  asymmetric,      // 1..8 bits: min and s = (max - min) / (2^b - 1), q = rne(clamp((x - min) / s))
  asymmetric_fp16  // the same with every step rounded to FP16, as KIVI computes it
};

/// Which values share a scale: `token` = channels of one token and head; `channel` = consecutive
/// tokens of one channel.
enum class GroupAxis { token, channel };

/// When the tokens of a tensor become codes; R is the scheme's residual window. `sliding`: to a row
/// the newest max(R, 1) tokens are exact, its own included. `lagging`: its own and the R before it
/// (KIVI's values). `flush`: its own and those since the last flush; when R have gathered, all of
/// them become codes after that row's attention (KIVI's keys). `none`: not even its own is exact
/// (llama.cpp, vLLM).
enum class WindowRule { sliding, lagging, flush, none };

/// What a scheme's prefill attends to: the exact keys and values (KIVI, HF, the presets), or the
/// quantised ones (llama.cpp, vLLM).
enum class PrefillMode { exact, quantized };

/// One tensor (K or V) of a scheme.
struct TensorScheme {
  int bits = 16;  // 1, 2, 4, 8; 16 = exact
  Quantizer quantizer = Quantizer::exact;
  GroupAxis axis = GroupAxis::token;
  int group_size = 0;   // values that share a scale; 0 = head_dim
  bool center = false;  // minus the per-channel prefix mean (FP16)
  bool normalize =
      false;  // divided by the per-channel prefix RMS (FP16), floor 1e-6... see schemes.md
  bool rotate = false;  // Hadamard x random signs over the head's channels
  WindowRule window = WindowRule::sliding;
  bool operator==(const TensorScheme&) const = default;
};

/// A fully specified quantiser of the key/value cache. Presets by name, everything overridable.
struct Scheme {
  std::string name;                // the precision's name, [A-Za-z0-9._-]+
  std::string family = "centred";  // centred | rotated | uniform | exact | kivi | custom
  TensorScheme key;
  TensorScheme value;
  bool key_before_rope = false;  // codes, residual window and sinks hold K before RoPE
  int residual_window = 0;  // R: the newest tokens that are exact, by each tensor's window rule
  int sink_tokens = 0;      // the first tokens, exact for ever
  PrefillMode prefill = PrefillMode::exact;
  std::uint64_t rotation_seed = 0;  // of the random signs
  bool operator==(const Scheme&) const = default;
};

/// The preset of that name: [centred-|rotated-|uniform-]K<b>V<b>[-R<n>][-S<n>], b in 1, 2, 4, 8,
/// 16; `exact` = K16V16. Without a family: centred (sinks 4); rotated and uniform have no sinks.
/// kivi-<b>[-g<n>][-R<n>], b in 1, 2, 4, 8; without g and R: 32 and 128.
/// UsageError with the grammar and the nearest name otherwise.
Scheme preset(std::string_view name);

/// Checks ranges, combinations and (when head_dim > 0) that groups divide head_dim and that a
/// rotated head_dim is a power of two. UsageError naming key, value and remedy.
void validate(const Scheme& scheme, int head_dim = 0);

/// The JSON object that traces and bundles carry, and back. Reading also takes `preset`, a preset's
/// name, whose values the other keys override (family becomes custom where they change a tensor),
/// and gives `bits` without `quantizer` the preset's quantiser of those bits. UsageError, naming
/// `where`, on unknown or mistyped keys and on whatever validate refuses.
nlohmann::json to_json(const Scheme& scheme);
Scheme scheme_from_json(const nlohmann::json& object, std::string_view where);

}  // namespace dgap::schemas
