#include <gtest/gtest.h>

#include "statistics/reference_row.hpp"
#include "statistics/window.hpp"
#include "tests/runtime/counting_new.hpp"
#include "tests/statistics/random_trace.hpp"

namespace dgap::statistics {
namespace {

TEST(Allocation, RowsAndWindowsReuseTheirBuffers) {
  const schemas::TracePart trace = testing::make_trace({});
  const std::int64_t vocab = trace.header.vocab_size;
  ReferenceRow row(vocab, vocab, 0.9);
  StepWindow window;
  RowOrder scratch;
  std::vector<std::int32_t> ranks(vocab);
  std::vector<float> oracle(16);
  const auto all_steps = [&] {
    double sum = 0.0;
    for (std::int64_t step = 0; step < trace.steps(); ++step) {
      row.assign(testing::row(trace.reference.logits, step, vocab));
      const auto quantized = testing::row(trace.columns[0].logits, step, vocab);
      sum += row.kl_to(quantized, trace.columns[0].lse[step]);
      for (const std::int64_t count : {std::int64_t{2}, vocab}) {
        ranks_of(quantized, row.order().first(count), ranks.data(), scratch);
      }
      window.assign(trace, 0, step, 0.9, 16);
      window.oracle(oracle);
      sum += window.after(oracle).kl;
    }
    return sum;
  };
  const double first = all_steps();
  const long before = test::allocations();
  EXPECT_EQ(all_steps(), first);
  EXPECT_EQ(test::allocations(), before);
}

}  // namespace
}  // namespace dgap::statistics
