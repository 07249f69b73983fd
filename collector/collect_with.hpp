#pragma once
#include <functional>
#include <memory>

#include "base/progress.hpp"
#include "engine/model/decoder.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "schemas/config/config.hpp"

namespace dgap::collector {

/// How to open what is decoded with. Called only when there is something to do.
struct Engine {
  std::function<std::unique_ptr<engine::Tokenizer>()> open_tokenizer;
  std::function<std::unique_ptr<engine::Decoder>()> open_decoder;
  /// Precisions that are decoded side by side; the trace does not depend on it. Empty: all.
  std::function<std::size_t(const engine::Tokenizer&)> precisions_at_once = {};
};

/// collect() with any engine.
void collect_with(const schemas::Config& config, const Engine& engine, base::Progress& progress);

}  // namespace dgap::collector
