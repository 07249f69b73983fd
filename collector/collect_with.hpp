#pragma once
#include <functional>
#include <memory>

#include "base/progress.hpp"
#include "engine/model/decoder.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "schemas/config/config.hpp"

namespace dgap::collector {

using OpenDecoder = std::function<std::unique_ptr<engine::Decoder>()>;

/// collect() with any tokenizer and decoder. `open` is called only when something has to be
/// decoded.
void collect_with(const schemas::Config& config, const engine::Tokenizer& tokenizer,
                  const OpenDecoder& open, base::Progress& progress);

}  // namespace dgap::collector
