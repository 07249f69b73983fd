// Compiled once per level with `dgap` renamed to the level's namespace, together with the runtime's
// sources (CMakeLists.txt).
#include "runtime/restorer.hpp"
#include "tests/runtime/toy_bundle.hpp"

namespace dgap {

void restore(std::int64_t vocabulary, int window, const char* precision, const dgap_logits& view,
             dgap_result* results) {
  runtime::Context context(vocabulary);
  context.begin(test::toy_text(vocabulary, 300));
  std::vector<float> state = test::toy_hidden();
  const dgap_logits hidden{state.data(), DGAP_F32, 1, 64, 0, 4};
  runtime::Restorer(test::toy_context_bundle(vocabulary, window), precision)
      .run(view, true, results, &context, &hidden);
}

}  // namespace dgap
