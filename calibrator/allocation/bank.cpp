#include "calibrator/allocation/bank.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>

#include "base/stop.hpp"
#include "statistics/exact_row.hpp"
#include "statistics/reference_row.hpp"

namespace dgap::calibrator {
namespace {

constexpr std::size_t kChunk = 8;  // schemes between two signs of life

/// Keeps the rows that a KL is taken from.
class Keep : public engine::LogitsSink {
 public:
  Keep(std::int64_t width, std::vector<float>& kept, std::vector<double>& lse)
      : width_(width), kept_(kept), lse_(lse) {}
  void take(std::int64_t, std::int64_t rows, const float* logits, const float*) override {
    kept_.insert(kept_.end(), logits, logits + rows * width_);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::span row(logits + r * width_, static_cast<std::size_t>(width_));
      lse_.push_back(statistics::exact_row(row).lse);
    }
  }

 private:
  std::int64_t width_;
  std::vector<float>& kept_;
  std::vector<double>& lse_;
};

}  // namespace

/// Scores rows as they come.
class Bank::Score : public engine::LogitsSink {
 public:
  Score(const Prepared& prepared, std::int64_t width) : case_(prepared), width_(width) {}

  void take(std::int64_t first, std::int64_t rows, const float* logits, const float*) override {
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::span row(logits + r * width_, static_cast<std::size_t>(width_));
      const double lse = statistics::exact_row(row).lse;
      if (case_.prompt)
        add_answer(row, lse, case_.tokens[static_cast<std::size_t>(case_.prefix + first + r + 1)]);
      else
        add_divergence(row, lse, first + r);
      ++rows_;
    }
  }

  AllocationLoss loss() const {
    const auto rows = static_cast<double>(rows_);
    return {sum_.nll / rows, sum_.kl / rows, sum_.token / rows, sum_.token == rows ? 1.0 : 0.0};
  }

 private:
  void add_divergence(std::span<const float> row, double lse, std::int64_t at) {
    const auto i = static_cast<std::size_t>(at);
    const std::span reference(case_.logits.data() + at * width_, row.size());
    sum_.kl += statistics::kl_divergence(reference, case_.lse[i], row, lse);
  }
  void add_answer(std::span<const float> row, double lse, std::int32_t target) {
    const float z = row[static_cast<std::size_t>(target)];
    sum_.nll += lse - static_cast<double>(z);
    sum_.token += std::max_element(row.begin(), row.end()) - row.begin() == target ? 1.0 : 0.0;
  }

  const Prepared& case_;
  std::int64_t width_;
  std::int64_t rows_ = 0;
  AllocationLoss sum_;
};

Bank::Bank(const engine::Decoder& decoder, std::vector<Case> cases)
    : width_(decoder.model().vocab_size) {
  std::vector<AllocationLoss> losses;
  for (Case& one : cases) {
    base::throw_if_stop_requested();
    Prepared& prepared = cases_.emplace_back();
    static_cast<Case&>(prepared) = std::move(one);
    const std::span<const std::int32_t> tokens = prepared.tokens;
    prepared.exact = decoder.begin(std::ssize(tokens) - 1);
    prepared.exact->append(tokens.first(static_cast<std::size_t>(prepared.prefix)), nullptr);
    if (prepared.prompt) {
      Score score(prepared, width_);
      prepared.exact->append(prepared.inputs(), &score);
      losses.push_back(score.loss());
    } else {
      Keep keep(width_, prepared.logits, prepared.lse);
      prepared.exact->append(prepared.inputs(), &keep);
      losses.emplace_back();
    }
  }
  reference_ = mean(losses);
}

AllocationLoss Bank::run(std::size_t i, const schemas::Scheme& scheme) const {
  const Prepared& one = cases_[i];
  Score score(one, width_);
  one.exact->fork(scheme, one.prefix)->append(one.inputs(), &score);
  return score.loss();
}

AllocationLoss Bank::mean(std::span<const AllocationLoss> of_cases) const {
  AllocationLoss sum;
  double prompts = 0, sites = 0;
  for (std::size_t i = 0; i < of_cases.size(); ++i) {
    const AllocationLoss& one = of_cases[i];
    (cases_[i].prompt ? prompts : sites) += 1;
    sum.nll += one.nll, sum.kl += one.kl, sum.token += one.token, sum.exact += one.exact;
  }
  if (prompts > 0) sum.nll /= prompts, sum.token /= prompts, sum.exact /= prompts;
  if (sites > 0) sum.kl /= sites;
  return sum;
}

std::vector<AllocationLoss> Bank::run_all(std::span<const schemas::Scheme> schemes,
                                          const std::function<void(std::int64_t)>& done) const {
  std::vector<AllocationLoss> means;
  for (std::size_t first = 0; first < schemes.size(); first += kChunk) {
    base::throw_if_stop_requested();
    const std::size_t count = std::min(kChunk, schemes.size() - first);
    std::vector<AllocationLoss> losses(count * size());
    tbb::parallel_for(std::size_t{0}, losses.size(), [&](std::size_t i) {
      losses[i] = run(i % size(), schemes[first + i / size()]);
    });
    for (std::size_t s = 0; s < count; ++s)
      means.push_back(mean(std::span(losses).subspan(s * size(), size())));
    done(static_cast<std::int64_t>(losses.size()));
  }
  return means;
}

std::pair<double, double> Bank::bits_per_element(const schemas::Scheme& scheme) const {
  const engine::CacheBytes bytes =
      cases_.front().exact->fork(scheme, cases_.front().prefix)->cache_bytes();
  return {bytes.bits_key(), bytes.bits_value()};
}

}  // namespace dgap::calibrator
