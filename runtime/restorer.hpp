#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/context.hpp"
#include "runtime/include/dgap/runtime.h"
#include "runtime/models.hpp"
#include "runtime/rate_controller.hpp"
#include "runtime/row_scan.hpp"
#include "schemas/bundle/bundle.hpp"

namespace dgap::runtime {

/// UsageError, naming those that there are, for an unknown precision.
const schemas::PrecisionEntry& entry_of(const schemas::Bundle& bundle, std::string_view precision);

/// One precision of a bundle, with the scratch of one thread: what is behind dgap_restorer.
class Restorer {
 public:
  /// UsageError for an unknown precision, UnsupportedBundleError for features that are not version
  /// 1's, IoError for networks that do not fit or a window larger than the vocabulary.
  Restorer(const schemas::Bundle& bundle, std::string_view precision);

  std::int64_t vocab_size() const { return vocab_size_; }

  /// Whether rows can be corrected only with the text before them.
  bool takes_context() const { return mode_ != Mode::off && corrector_.takes_context(); }

  /// Whether rows can be corrected only with the hidden states that they were computed from, of
  /// hidden_size() numbers.
  bool takes_hidden() const { return mode_ != Mode::off && corrector_.takes_hidden(); }
  std::int64_t hidden_size() const { return corrector_.hidden_size(); }

  /// From now on rows are those of one sequence, in order, and its controller gives tau and
  /// observes what run() restores; nullptr: the bundle's tau again. Not owned. Mode `threshold`
  /// alone has a tau; the others take no notice.
  void set_controller(RateController* controller) {
    controller_ = mode_ == Mode::threshold ? controller : nullptr;
  }

  /// One row per result, in order. With `edit`, rows with the verdict `restore` are corrected in
  /// place (arXiv:2607.16248 Eq. 13). `context`: the text before the rows, where it is taken;
  /// `hidden`: a row of hidden states for every row, where they are. All have been checked. No
  /// allocation.
  void run(const dgap_logits& view, bool edit, dgap_result* results,
           const Context* context = nullptr, const dgap_logits* hidden = nullptr) noexcept;

 private:
  enum class Mode { threshold, always, off };

  Restorer(const schemas::Bundle& bundle, const schemas::PrecisionEntry& entry);
  dgap_result run_row(std::byte* row, const dgap_logits& view, bool edit, const Context* context,
                      const float* hidden);
  /// False, and nothing written, when a corrected logit is not finite.
  bool correct(std::byte* row, const dgap_logits& view, const CorrectorStep& step);

  std::int64_t vocab_size_;
  int window_;
  double window_mass_;
  Mode mode_;
  double tau_, escalate_tau_;
  RateController* controller_ = nullptr;
  Detector detector_;
  Corrector corrector_;
  RowScan scan_;
  std::vector<float> row_;         // [vocab_size], where the caller's row is not as Row takes it
  std::vector<float> hidden_;      // [hidden_size], likewise
  std::vector<float> values_;      // [window] logits, descending
  std::vector<float> edited_;      // [window] corrected
  std::vector<std::int32_t> ids_;  // [window]
  std::vector<float> detector_scratch_;
  Corrector::Scratch corrector_scratch_;
  float phi_[kDetectorWidth] = {};
};

}  // namespace dgap::runtime
