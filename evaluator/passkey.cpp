#include "evaluator/passkey.hpp"

#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/stop.hpp"
#include "dgap/runtime.h"

namespace dgap::evaluator {
namespace {

/// Logits of a few rows, kept.
class KeptRows : public engine::LogitsSink {
 public:
  explicit KeptRows(std::int64_t width) : width_(width) {}
  void take(std::int64_t first_row, std::int64_t rows, const float* logits, const float*) override {
    (void)first_row;
    values_.insert(values_.end(), logits, logits + rows * width_);
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(values_.size()) / width_; }
  std::vector<float>& values() { return values_; }
  std::span<const float> row(std::int64_t i) const {
    return {values_.data() + i * width_, static_cast<std::size_t>(width_)};
  }

 private:
  std::int64_t width_;
  std::vector<float> values_;
};

struct Close {
  void operator()(dgap_bundle* b) const { dgap_bundle_close(b); }
  void operator()(dgap_restorer* r) const { dgap_restorer_destroy(r); }
};
using BundleHandle = std::unique_ptr<dgap_bundle, Close>;
using RestorerHandle = std::unique_ptr<dgap_restorer, Close>;

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
  PasskeyScore score() const {
    return cases_ == 0 ? PasskeyScore{} : PasskeyScore{exact_ / cases_, token_ / cases_};
  }

 private:
  double exact_ = 0, token_ = 0, cases_ = 0;
};

struct PrecisionRun {
  const schemas::Scheme* scheme;
  RestorerHandle restorer;
  Tally quantized, restored, oracle;
};

std::vector<std::uint8_t> right_answers(const KeptRows& rows,
                                        std::span<const std::int32_t> answer) {
  std::vector<std::uint8_t> right;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    right.push_back(argmax(rows.row(static_cast<std::int64_t>(i))) == answer[i] ? 1 : 0);
  }
  return right;
}

void run_precision(PrecisionRun& run, const engine::Decoder& decoder, const engine::Sequence& exact,
                   const PasskeyCase& one, std::span<const std::int32_t> inputs,
                   std::span<const std::uint8_t> reference_right, std::int64_t width) {
  KeptRows rows(width);
  const auto prefix = std::span(one.prompt).first(one.prompt.size() - 1);
  engine::continue_prefix(decoder, exact, prefix, *run.scheme)->append(inputs, &rows);
  run.quantized.add(right_answers(rows, one.answer));

  const KeptRows before = rows;
  std::vector<dgap_result> results(one.answer.size());
  const dgap_logits view{rows.values().data(), DGAP_F32, rows.rows(), width, width * 4, 4};
  check(dgap_restorer_restore(run.restorer.get(), &view, results.data()));
  run.restored.add(right_answers(rows, one.answer));

  std::vector<std::uint8_t> reachable;
  for (std::size_t i = 0; i < one.answer.size(); ++i) {
    const bool inside =
        rank(before.row(static_cast<std::int64_t>(i)), one.answer[i]) < results[i].window;
    reachable.push_back(reference_right[i] != 0 && inside ? 1 : 0);
  }
  run.oracle.add(reachable);
}

}  // namespace

PasskeyResult passkey(const engine::Decoder& decoder, const std::vector<schemas::Scheme>& schemes,
                      const std::string& bundle_directory, const std::vector<PasskeyCase>& cases,
                      base::Progress& progress) {
  dgap_bundle* opened = nullptr;
  check(dgap_bundle_open(bundle_directory.c_str(), &opened));
  const BundleHandle bundle(opened);
  std::vector<PrecisionRun> runs;
  for (const schemas::Scheme& scheme : schemes) {
    dgap_restorer* restorer = nullptr;
    check(dgap_restorer_create(bundle.get(), scheme.name.c_str(), &restorer));
    runs.push_back({&scheme, RestorerHandle(restorer), {}, {}, {}});
  }

  const std::int64_t width = decoder.model().vocab_size;
  PasskeyResult result;
  result.cases = static_cast<std::int64_t>(cases.size());
  Tally reference;
  progress.begin("passkey", result.cases, "prompts");
  for (const PasskeyCase& one : cases) {
    base::throw_if_stop_requested();
    // Prompt and answer but its last token; the decode begins with the prompt's last token.
    std::vector<std::int32_t> ids = one.prompt;
    ids.insert(ids.end(), one.answer.begin(), one.answer.end() - 1);
    const auto first = static_cast<std::int64_t>(one.prompt.size()) - 1;
    result.context = std::max(result.context, first + 1);
    const auto sequence = decoder.begin(static_cast<std::int64_t>(ids.size()));
    KeptRows rows(width);
    sequence->append(ids, &rows, first);
    const auto right = right_answers(rows, one.answer);
    reference.add(right);
    for (PrecisionRun& run : runs) {
      run_precision(run, decoder, *sequence, one,
                    std::span(ids).subspan(static_cast<std::size_t>(first)), right, width);
    }
    progress.advance(1);
  }
  progress.end();
  result.reference = reference.score();
  for (const PrecisionRun& run : runs) {
    result.precisions[run.scheme->name] = {run.quantized.score(), run.restored.score(),
                                           run.oracle.score()};
  }
  return result;
}

}  // namespace dgap::evaluator
