#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "calibrator/allocation/cases.hpp"
#include "engine/model/decoder.hpp"
#include "schemas/results/allocations.hpp"

namespace dgap::calibrator {

using schemas::AllocationLoss;

/// Cases with their exact prefixes, prefilled once and kept, so that any number of schemes can be
/// decoded over each. Keeps the exact cache of every prefix, and the reference's logits of every
/// scored row of a site.
class Bank {
 public:
  Bank(const engine::Decoder& decoder, std::vector<Case> cases);

  std::size_t size() const { return cases_.size(); }
  bool is_prompt(std::size_t i) const { return cases_[i].prompt; }

  /// One scheme on one case: nll, token and exact of a prompt, kl of a site.
  AllocationLoss run(std::size_t i, const schemas::Scheme& scheme) const;
  /// Every scheme on every case, in parallel; means over prompts and over sites. Calls done(n)
  /// after n more decodes.
  std::vector<AllocationLoss> run_all(std::span<const schemas::Scheme> schemes,
                                      const std::function<void(std::int64_t)>& done) const;
  /// The exact cache's own loss.
  AllocationLoss reference() const { return reference_; }
  /// Bits per element of keys and of values, as a cache of the scheme counts them.
  std::pair<double, double> bits_per_element(const schemas::Scheme& scheme) const;

 private:
  class Score;
  struct Prepared : Case {
    std::unique_ptr<engine::Sequence> exact;
    std::vector<float> logits = {};  // of a site's reference, [rows, vocabulary]
    std::vector<double> lse = {};    // [rows]
    std::span<const std::int32_t> inputs() const {
      return std::span(tokens).subspan(static_cast<std::size_t>(prefix),
                                       tokens.size() - 1 - static_cast<std::size_t>(prefix));
    }
  };
  AllocationLoss mean(std::span<const AllocationLoss> of_cases) const;

  std::vector<Prepared> cases_;
  std::int64_t width_;
  AllocationLoss reference_;
};

}  // namespace dgap::calibrator
