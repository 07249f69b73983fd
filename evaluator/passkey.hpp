#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "engine/model/decoder.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "schemas/config/config.hpp"
#include "schemas/trace/trace.hpp"

/// Retrieval beside perplexity: a five-digit pass key hidden in held-out text, asked for at the end.
/// The answer is teacher-forced, so `exact` equals what greedy decoding would give.
namespace dgap::evaluator {

struct PasskeyCase {
  std::vector<std::int32_t> prompt, answer;
};

/// Shares of cases with every answer token right, and of answer tokens that are right.
struct PasskeyScore {
  double exact = 0, token = 0;
};

struct PasskeyResult {
  std::int64_t cases = 0;
  std::int64_t context = 0;  // longest prompt, tokens
  PasskeyScore reference;
  struct Precision {
    PasskeyScore quantized, restored;
    PasskeyScore oracle;  // the reference's choice, where the window holds it
  };
  std::map<std::string, Precision> precisions;
};

/// Prompts of about `config.context` tokens from the units' text; keys, places and depths by `seed`.
std::vector<PasskeyCase> passkey_cases(const schemas::TracePart& text, const engine::Tokenizer& tokenizer,
                                       const schemas::PasskeyConfig& config, std::uint64_t seed);

/// Runs the cases on the live model, every scheme over one exact prefix, restoring through the
/// public runtime library with the bundle in `bundle_directory`.
PasskeyResult passkey(const engine::Decoder& decoder, const std::vector<schemas::Scheme>& schemes,
                      const std::string& bundle_directory, const std::vector<PasskeyCase>& cases,
                      base::Progress& progress);

}  // namespace dgap::evaluator
