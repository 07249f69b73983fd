#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "schemas/config/config.hpp"

namespace dgap::calibrator {

/// What allocations are measured on: the exact prefix is tokens [0, prefix), and the rows of tokens
/// [prefix, end - 1) are scored. Of a prompt, on the next token; of a site of book text, by their
/// KL from the reference.
struct Case {
  std::vector<std::int32_t> tokens;
  std::int64_t prefix = 0;
  bool prompt = false;
};

/// Synthetic prompts (the calibration's vocabulary, without the count control) and sites of book
/// text from a split: "train" or "validation". FailedError where the split's texts are too few or
/// too short.
std::vector<Case> make_cases(const schemas::Config& config, const std::string& split, int prompts,
                             const engine::Tokenizer& tokenizer, base::Progress& progress);

}  // namespace dgap::calibrator
