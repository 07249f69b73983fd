#pragma once
#include <memory>

#include "runtime/context.hpp"
#include "schemas/trace/trace.hpp"

namespace dgap::statistics {

/// The text before one step of a trace after another, as the runtime indexes it. Steps in order
/// cost one token each; other orders begin the text anew. For one thread.
class StepContext {
 public:
  const runtime::Context& at(const schemas::TracePart& trace, std::int64_t step);

 private:
  std::unique_ptr<runtime::Context> context_;
  const std::int32_t* text_ = nullptr;  // what context_ begins with
};

}  // namespace dgap::statistics
