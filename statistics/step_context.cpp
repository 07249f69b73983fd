#include "statistics/step_context.hpp"

#include <string>

#include "base/error.hpp"
#include "base/half.hpp"

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

runtime::CorrectorStep StepContext::corrector_step(const runtime::Corrector& corrector,
                                                   const schemas::TracePart& trace,
                                                   std::size_t precision, std::int64_t step,
                                                   const StepWindow& window, const float* phi) {
  runtime::CorrectorStep seen{phi, window.logits(), window.served_lse(), window.ids()};
  if (corrector.takes_context()) seen.context = &at(trace, step);
  if (!corrector.takes_hidden()) return seen;
  const auto& states = trace.columns[precision].hidden;
  const int size = corrector.hidden_size();
  if (states.empty() || trace.header.hidden_size != size) {
    throw base::FailedError("precision " + trace.precisions[precision].name +
                            ": the corrector takes hidden states of " + std::to_string(size) +
                            " numbers, which the traces do not hold; set trace.hidden to true and "
                            "collect them again");
  }
  hidden_.resize(static_cast<std::size_t>(size));
  base::from_half(states.data() + step * size, hidden_.data(), hidden_.size());
  seen.hidden = hidden_.data();
  return seen;
}

}  // namespace dgap::statistics
