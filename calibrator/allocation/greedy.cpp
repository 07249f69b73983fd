#include <algorithm>
#include <cmath>

#include "base/stop.hpp"
#include "calibrator/allocation/estimators.hpp"
#include "calibrator/allocation/sensitivity.hpp"

namespace dgap::calibrator {
namespace {

constexpr std::size_t kLookAhead = 8;  // candidates of one round
constexpr std::size_t kTake = 2;       // of them that are kept at most

/// Forward selection: what has been taken, and what is open in the order of its rank.
class Selection {
 public:
  Selection(const Bank& bank, const BitSpace& space, double book_weight, std::vector<Upgrade> open,
            double budget)
      : bank_(bank),
        space_(space),
        book_weight_(book_weight),
        open_(std::move(open)),
        bits_(space.all(kBaseBits)),
        left_(budget - space.bits_per_element(bits_)) {
    loss_ = losses_with({bits_}).front();
  }

  double left() const { return left_; }

  /// One round; false when nothing fits any more.
  bool advance() {
    std::vector<std::size_t> look = next();
    if (look.empty()) return false;
    std::vector<Bits> with(look.size(), bits_);
    for (std::size_t i = 0; i < look.size(); ++i)
      with[i][open_[look[i]].part] = open_[look[i]].bits;
    const std::vector<double> losses = losses_with(with);
    for (std::size_t i = 0; i < look.size(); ++i) open_[look[i]].value = loss_ - losses[i];
    std::stable_sort(look.begin(), look.end(), [&](std::size_t a, std::size_t b) {
      return worth(space_, open_[a]) > worth(space_, open_[b]);
    });
    std::vector<std::size_t> gone;
    for (const std::size_t i : look) {
      if (gone.size() < kTake && fits(space_, open_[i], bits_, left_))
        gone.push_back(i), take(open_[i]);
    }
    std::sort(gone.rbegin(), gone.rend());
    for (const std::size_t i : gone) open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
    open_ = ranked(space_, std::move(open_));
    loss_ = losses_with({bits_}).front();
    return true;
  }

  std::vector<Upgrade> order() && {
    taken_.insert(taken_.end(), open_.begin(), open_.end());
    return std::move(taken_);
  }

 private:
  std::vector<std::size_t> next() const {
    std::vector<std::size_t> look;
    for (std::size_t i = 0; i < open_.size() && look.size() < kLookAhead; ++i) {
      if (fits(space_, open_[i], bits_, left_)) look.push_back(i);
    }
    return look;
  }

  void take(const Upgrade& upgrade) {
    left_ -= extra(space_, upgrade, bits_);
    bits_[upgrade.part] = upgrade.bits;
    taken_.push_back(upgrade);
  }

  std::vector<double> losses_with(const std::vector<Bits>& allocations) const {
    std::vector<schemas::Scheme> schemes;
    for (const Bits& bits : allocations) schemes.push_back(space_.scheme(bits));
    std::vector<double> losses;
    for (const AllocationLoss& loss : bank_.run_all(schemes, [](std::int64_t) {}))
      losses.push_back(total(loss, book_weight_));
    return losses;
  }

  const Bank& bank_;
  const BitSpace& space_;
  double book_weight_;
  std::vector<Upgrade> open_, taken_ = {};
  Bits bits_;
  double left_, loss_ = 0;
};

}  // namespace

std::vector<Upgrade> greedy_order(const Bank& bank, const BitSpace& space,
                                  const schemas::AllocationConfig& config,
                                  const std::vector<Upgrade>& prior, double budget,
                                  base::Progress& progress) {
  Selection selection(bank, space, config.book_weight, prior, budget);
  // Counted in thousandths of a bit per element.
  std::int64_t left = std::llround(1e3 * selection.left());
  progress.begin("greedy", left, "millibits");
  while (selection.advance()) {
    base::throw_if_stop_requested();
    const std::int64_t now = std::llround(1e3 * selection.left());
    progress.advance(left - now);
    left = now;
  }
  progress.end();
  return std::move(selection).order();
}

}  // namespace dgap::calibrator
