#include "evaluator/retrieval.hpp"

#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/stop.hpp"
#include "dgap/runtime.h"

namespace dgap::evaluator {
namespace {

/// Logits and hidden states of a few rows, kept.
class KeptRows : public engine::LogitsSink {
 public:
  explicit KeptRows(const engine::ModelInfo& model)
      : width_(model.vocab_size), hidden_size_(model.hidden_size) {}
  void take(std::int64_t first_row, std::int64_t rows, const float* logits,
            const float* hidden) override {
    (void)first_row;
    values_.insert(values_.end(), logits, logits + rows * width_);
    hidden_.insert(hidden_.end(), hidden, hidden + rows * hidden_size_);
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(values_.size()) / width_; }
  /// As the runtime takes them.
  dgap_logits logits() { return view(values_, width_); }
  dgap_logits hidden() { return view(hidden_, hidden_size_); }
  std::span<const float> row(std::int64_t i) const {
    return {values_.data() + i * width_, static_cast<std::size_t>(width_)};
  }

 private:
  dgap_logits view(std::vector<float>& values, std::int64_t width) const {
    return {values.data(), DGAP_F32, rows(), width, width * 4, 4};
  }

  std::int64_t width_, hidden_size_;
  std::vector<float> values_, hidden_;
};

struct Close {
  void operator()(dgap_bundle* b) const { dgap_bundle_close(b); }
  void operator()(dgap_restorer* r) const { dgap_restorer_destroy(r); }
  void operator()(dgap_context* c) const { dgap_context_destroy(c); }
};
using BundleHandle = std::unique_ptr<dgap_bundle, Close>;
using RestorerHandle = std::unique_ptr<dgap_restorer, Close>;
using ContextHandle = std::unique_ptr<dgap_context, Close>;

void check(dgap_status status) {
  if (status != DGAP_OK) throw base::FailedError(std::string("runtime: ") + dgap_last_error());
}

std::int32_t argmax(std::span<const float> row) {  // lowest id on ties
  return static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

/// 0-based rank of an id in the order (logit descending, id ascending).
std::int64_t rank(std::span<const float> row, std::int32_t id) {
  const float value = row[static_cast<std::size_t>(id)];
  std::int64_t before = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    before += row[i] > value || (row[i] == value && static_cast<std::int32_t>(i) < id) ? 1 : 0;
  }
  return before;
}

/// Adds one case's answers to a score.
class Tally {
 public:
  void add(std::span<const std::uint8_t> right) {
    std::int64_t count = 0;
    for (const std::uint8_t r : right) count += r;
    token_ += static_cast<double>(count) / static_cast<double>(right.size());
    exact_ += count == static_cast<std::int64_t>(right.size()) ? 1 : 0;
    cases_ += 1;
  }
  RetrievalScore score() const {
    return cases_ == 0 ? RetrievalScore{} : RetrievalScore{exact_ / cases_, token_ / cases_};
  }

 private:
  double exact_ = 0, token_ = 0, cases_ = 0;
};

/// Scores of one task: of the reference, and of each precision.
struct TaskTally {
  struct Precision {
    Tally quantized, restored, oracle;
  };
  std::int64_t cases = 0, context = 0;
  Tally reference;
  std::vector<Precision> precisions;
};

struct PrecisionRun {
  const schemas::Scheme* scheme;
  RestorerHandle restorer;
  ContextHandle context;
};

std::vector<std::uint8_t> right_answers(const KeptRows& rows,
                                        std::span<const std::int32_t> answer) {
  std::vector<std::uint8_t> right;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    right.push_back(argmax(rows.row(static_cast<std::int64_t>(i))) == answer[i] ? 1 : 0);
  }
  return right;
}

/// As a serving stack does: row by row, each after the text that it continues.
void restore(const PrecisionRun& run, const corpus::Prompt& one, std::span<const std::int32_t> inputs,
             KeptRows& rows, dgap_result* results) {
  check(dgap_context_begin(run.context.get(), one.prompt.data(),
                           static_cast<std::int64_t>(one.prompt.size()) - 1));
  dgap_logits row = rows.logits(), hidden = rows.hidden();
  const dgap_logits view = row, states = hidden;
  row.rows = hidden.rows = 1;
  const dgap_context* const context = run.context.get();
  for (std::int64_t i = 0; i < view.rows; ++i) {
    check(dgap_context_accept(run.context.get(), &inputs[static_cast<std::size_t>(i)], 1));
    row.data = static_cast<std::byte*>(view.data) + i * view.row_stride;
    hidden.data = static_cast<std::byte*>(states.data) + i * states.row_stride;
    check(dgap_restorer_restore_with(run.restorer.get(), &context, &hidden, &row, results + i));
  }
}

/// One case, decoded over the scheme's cache and then restored.
void run_precision(const PrecisionRun& run, const engine::Decoder& decoder,
                   const engine::Sequence& exact, const corpus::Prompt& one,
                   std::span<const std::int32_t> inputs,
                   std::span<const std::uint8_t> reference_right, TaskTally::Precision& tally) {
  KeptRows rows(decoder.model());
  const auto prefix = std::span(one.prompt).first(one.prompt.size() - 1);
  engine::continue_prefix(decoder, exact, prefix, *run.scheme)->append(inputs, &rows);
  tally.quantized.add(right_answers(rows, one.answer));

  const KeptRows before = rows;
  std::vector<dgap_result> results(one.answer.size());
  restore(run, one, inputs, rows, results.data());
  tally.restored.add(right_answers(rows, one.answer));

  std::vector<std::uint8_t> reachable;
  for (std::size_t i = 0; i < one.answer.size(); ++i) {
    const bool inside =
        rank(before.row(static_cast<std::int64_t>(i)), one.answer[i]) < results[i].window;
    reachable.push_back(reference_right[i] != 0 && inside ? 1 : 0);
  }
  tally.oracle.add(reachable);
}

void run_case(const engine::Decoder& decoder, const std::vector<PrecisionRun>& runs,
              const corpus::Prompt& one, TaskTally& tally) {
  // Prompt and answer but its last token; the decode begins with the prompt's last token.
  std::vector<std::int32_t> ids = one.prompt;
  ids.insert(ids.end(), one.answer.begin(), one.answer.end() - 1);
  const std::int64_t first = std::ssize(one.prompt) - 1;
  const auto sequence = decoder.begin(std::ssize(ids));
  KeptRows rows(decoder.model());
  sequence->append(ids, &rows, first);
  const auto right = right_answers(rows, one.answer);
  tally.cases += 1;
  tally.context = std::max(tally.context, first + 1);
  tally.reference.add(right);
  tally.precisions.resize(runs.size());
  for (std::size_t p = 0; p < runs.size(); ++p) {
    run_precision(runs[p], decoder, *sequence, one,
                  std::span(ids).subspan(static_cast<std::size_t>(first)), right,
                  tally.precisions[p]);
  }
}

}  // namespace

RetrievalResult retrieval(const engine::Decoder& decoder,
                          const std::vector<schemas::Scheme>& schemes,
                          const std::string& bundle_directory,
                          const std::vector<corpus::Prompt>& cases, base::Progress& progress) {
  dgap_bundle* opened = nullptr;
  check(dgap_bundle_open(bundle_directory.c_str(), &opened));
  const BundleHandle bundle(opened);
  std::vector<PrecisionRun> runs;
  for (const schemas::Scheme& scheme : schemes) {
    dgap_restorer* restorer = nullptr;
    check(dgap_restorer_create(bundle.get(), scheme.name.c_str(), &restorer));
    dgap_context* context = nullptr;
    check(dgap_context_create(bundle.get(), 0, &context));
    runs.push_back({&scheme, RestorerHandle(restorer), ContextHandle(context)});
  }

  std::map<corpus::Kind, TaskTally> tallies;
  progress.begin("retrieval", std::ssize(cases), "prompts");
  for (const corpus::Prompt& one : cases) {
    base::throw_if_stop_requested();
    run_case(decoder, runs, one, tallies[one.kind]);
    progress.advance(1);
  }
  progress.end();

  RetrievalResult result;
  for (const auto& [kind, tally] : tallies) {
    TaskResult& task = result[std::string(corpus::name_of(kind))];
    task.cases = tally.cases, task.context = tally.context;
    task.reference = tally.reference.score();
    for (std::size_t p = 0; p < runs.size(); ++p) {
      const TaskTally::Precision& t = tally.precisions[p];
      task.precisions[runs[p].scheme->name] = {t.quantized.score(), t.restored.score(),
                                               t.oracle.score()};
    }
  }
  return result;
}

}  // namespace dgap::evaluator
