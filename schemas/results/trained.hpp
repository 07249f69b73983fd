#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "schemas/bundle/bundle.hpp"

/// <run>/detector/P.{json,safetensors} and <run>/corrector/P.{json,safetensors}: what training
/// leaves for threshold and bundle (trained.schema.json).
namespace dgap::schemas {

/// Expected calibration error of a detector's risk on validation steps, before and after
/// NetworkInfo::calibration, which was found on the same steps.
struct CalibrationErrors {
  double before = 0, after = 0;
};

/// How a network came about. Losses are means over steps; NaN is written as null. A corrector's
/// validation loss is its divergence alone, without the pairwise and the squared terms.
struct TrainingFigures {
  std::int64_t training_steps = 0, validation_steps = 0;  // that the loss was averaged over
  double positive_rate = 0;    // of y (arXiv:2607.16248 Eq. 9) in the whole training split
  double positive_weight = 1;  // class weight of y = 1; detectors
  std::string objective;       // correctors: paper | extended; detectors: ""
  double initial_validation_loss = 0;
  std::vector<double> train_loss, validation_loss;  // epoch 1, 2, ...
  int chosen_epoch = 0;                             // 0: the untrained network was the best
  std::optional<double> auc;                        // detectors, on validation steps
  /// Correctors: mean KL(reference || .) on validation steps, before and with every step corrected.
  std::optional<double> kl_before, kl_after;
  std::optional<CalibrationErrors> calibration_error;  // detectors that are not constant
  std::optional<double> escalate_rate, escalate_auc;   // of the second output, training, validation
  /// Correctors: combinations of training.search that were tried, and the values of the one that
  /// was kept; the lowest validation loss of every seed, run.seed's own first; and by
  /// training.learning_curve the lowest validation losses of trainings on fewer steps, all steps
  /// last.
  int settings_tried = 1;
  std::map<std::string, std::string> setting;
  std::vector<double> seed_losses;
  std::vector<std::int64_t> curve_steps;
  std::vector<double> curve_losses;
};

/// Of the chosen epoch.
double chosen_loss(const TrainingFigures& figures);

struct TrainedNetwork {
  std::string key;  // of the run that made it: a stage with the same key need not train again
  NetworkInfo info;
  Tensors tensors;  // named as in the bundle, with the prefix info.tensors
  TrainingFigures figures;
};

/// <directory>/<precision>.safetensors, then the JSON with its hash: a network without its JSON is
/// not there. FailedError, with nothing written, when a weight is not finite.
void write_trained(const std::filesystem::path& directory, const std::string& precision,
                   const TrainedNetwork& network);

/// Both files of write_trained, in that order.
std::vector<std::filesystem::path> trained_files(const std::filesystem::path& directory,
                                                 const std::string& precision);

/// IoError naming file and key on anything missing, damaged or out of range.
TrainedNetwork read_trained(const std::filesystem::path& directory, const std::string& precision);

}  // namespace dgap::schemas
