#pragma once
#include <memory>
#include <string>

#include "engine/model/weights.hpp"

namespace dgap::engine {

/// Weights and hyper-parameters of a model file. `format`: auto, gguf or huggingface. Everything
/// that can be found out without reading the weights themselves is checked here: IoError for
/// damaged files, UsageError for models or formats that are not supported. WeightSource's functions
/// throw IoError for tensors that hold infinities or NaN. Thread-safe.
std::unique_ptr<WeightSource> open_weights(const std::string& path, const std::string& format);

/// Reads every tensor; IoError for the first that holds infinities or NaN.
void check_weights(const WeightSource& weights);

}  // namespace dgap::engine
