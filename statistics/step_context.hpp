#pragma once
#include <memory>
#include <vector>

#include "runtime/context.hpp"
#include "runtime/models.hpp"
#include "schemas/trace/trace.hpp"
#include "statistics/window.hpp"

namespace dgap::statistics {

/// The text before one step of a trace after another, as the runtime indexes it. Steps in order
/// cost one token each; other orders begin the text anew. For one thread.
class StepContext {
 public:
  const runtime::Context& at(const schemas::TracePart& trace, std::int64_t step);

  /// What `corrector` may see of a step besides phi and the window: text and hidden state, where it
  /// takes them. FailedError where the trace has no hidden states, or of another size.
  runtime::CorrectorStep corrector_step(const runtime::Corrector& corrector,
                                        const schemas::TracePart& trace, std::size_t precision,
                                        std::int64_t step, const StepWindow& window,
                                        const float* phi);

 private:
  std::vector<float> hidden_;
  std::unique_ptr<runtime::Context> context_;
  const std::int32_t* text_ = nullptr;  // what context_ begins with
};

}  // namespace dgap::statistics
