#include "statistics/step_context.hpp"

namespace dgap::statistics {

const runtime::Context& StepContext::at(const schemas::TracePart& trace, std::int64_t step) {
  const auto text = trace.context_of(step);
  if (!context_) context_ = std::make_unique<runtime::Context>(trace.header.vocab_size);
  const auto held = static_cast<std::size_t>(context_->length());
  if (text.data() != text_ || held > text.size()) {
    context_->begin(text);
    text_ = text.data();
  } else {
    context_->accept(text.subspan(held));
  }
  return *context_;
}

}  // namespace dgap::statistics
