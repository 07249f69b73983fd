#include "trainer/fit.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/stop.hpp"
#include "trainer/adamw.hpp"
#include "trainer/dense.hpp"

namespace dgap::trainer {
namespace {

constexpr double kGradientLimit = 1.0;

std::int64_t chunks_of(std::size_t steps) {
  return (static_cast<std::int64_t>(steps) + kChunk - 1) / kChunk;
}

std::span<const std::int32_t> chunk_of(std::span<const std::int32_t> steps, std::int64_t chunk) {
  const std::size_t begin = chunk * kChunk;
  return steps.subspan(begin, std::min<std::size_t>(kChunk, steps.size() - begin));
}

/// Mean loss and gradient of a batch; buffers are reused.
class BatchGradient {
 public:
  BatchGradient(std::size_t parameters, std::size_t batch)
      : gradient_(parameters),
        parts_(static_cast<std::size_t>(chunks_of(batch)), std::vector<float>(parameters)),
        losses_(parts_.size()) {}

  double compute(const Objective<float>& objective, std::span<const std::int32_t> batch,
                 std::span<const float> parameters) {
    const std::int64_t chunks = chunks_of(batch.size());
    tbb::parallel_for(std::int64_t{0}, chunks, [&](std::int64_t c) {
      std::fill(parts_[c].begin(), parts_[c].end(), 0.0f);
      losses_[c] = objective.chunk(chunk_of(batch, c), parameters.data(), parts_[c].data());
    });
    std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    double loss = 0.0;
    for (std::int64_t c = 0; c < chunks; ++c) {
      accumulate(parts_[c].data(), gradient_.data(), static_cast<std::int64_t>(gradient_.size()));
      loss += losses_[c];
    }
    const auto scale = 1.0f / static_cast<float>(batch.size());
    for (float& g : gradient_) g *= scale;
    return loss / static_cast<double>(batch.size());
  }

  std::span<float> gradient() { return gradient_; }

 private:
  std::vector<float> gradient_;
  std::vector<std::vector<float>> parts_;
  std::vector<double> losses_;
};

/// Keeps the parameters of the epoch with the lowest validation loss.
class BestEpoch {
 public:
  BestEpoch(double initial_loss, std::span<const float> parameters)
      : loss_(initial_loss), parameters_(parameters.begin(), parameters.end()) {}

  void offer(int epoch, double loss, std::span<const float> parameters) {
    if (!std::isnan(loss) && loss >= loss_) return;
    loss_ = loss;
    epoch_ = epoch;
    std::copy(parameters.begin(), parameters.end(), parameters_.begin());
  }
  int epoch() const { return epoch_; }
  std::span<const float> parameters() const { return parameters_; }

 private:
  double loss_;
  int epoch_ = 0;
  std::vector<float> parameters_;
};

[[noreturn]] void fail_non_finite(const std::string& name, const char* what, int epoch,
                                  std::int64_t update) {
  throw base::FailedError(name + ": the " + what + " is not finite in epoch " +
                          std::to_string(epoch) + ", update " + std::to_string(update) +
                          "; nothing was written; lower training.learning_rate");
}

}  // namespace

double mean_loss(const Split& split, std::span<const float> parameters) {
  const std::int64_t chunks = chunks_of(split.steps.size());
  std::vector<double> losses(static_cast<std::size_t>(chunks));
  tbb::parallel_for(std::int64_t{0}, chunks, [&](std::int64_t c) {
    losses[c] = split.objective->chunk(chunk_of(split.steps, c), parameters.data(), nullptr);
  });
  double sum = 0.0;
  for (const double loss : losses) sum += loss;
  return sum / static_cast<double>(split.steps.size());
}

void fit(const std::string& name, const Split& training, const Split& validation,
         const schemas::TrainingConfig& config, std::vector<float> decays,
         std::span<float> parameters, base::Random& random, base::Progress& progress,
         schemas::TrainingFigures& figures) {
  std::vector<std::int32_t> order = training.steps;
  const std::size_t batch = std::min<std::size_t>(config.batch, order.size());
  const auto batches = static_cast<std::int64_t>((order.size() + batch - 1) / batch);
  AdamW optimiser(std::move(decays), config.weight_decay);
  BatchGradient batch_gradient(parameters.size(), batch);
  figures.training_steps = static_cast<std::int64_t>(order.size());
  figures.validation_steps = static_cast<std::int64_t>(validation.steps.size());
  figures.initial_validation_loss = mean_loss(validation, parameters);
  BestEpoch best(figures.initial_validation_loss, parameters);
  std::int64_t update = 0;
  int epoch = 1;
  for (; epoch <= config.epochs && epoch - best.epoch() <= config.patience; ++epoch) {
    random.shuffle(std::span(order));
    double epoch_loss = 0.0;
    for (std::size_t begin = 0; begin < order.size(); begin += batch, ++update) {
      base::throw_if_stop_requested();
      const auto steps = std::span(order).subspan(begin, std::min(batch, order.size() - begin));
      const double loss = batch_gradient.compute(*training.objective, steps, parameters);
      const double gradient_norm = norm(batch_gradient.gradient());
      if (!std::isfinite(loss)) fail_non_finite(name, "loss", epoch, update + 1);
      if (!std::isfinite(gradient_norm)) fail_non_finite(name, "gradient", epoch, update + 1);
      clip(batch_gradient.gradient(), gradient_norm, kGradientLimit);
      optimiser.step(parameters, batch_gradient.gradient(),
                     scheduled_rate(config.learning_rate, update, batches * config.epochs));
      epoch_loss += loss * static_cast<double>(steps.size());
    }
    const double validation_loss = mean_loss(validation, parameters);
    if (!std::isfinite(validation_loss) && !validation.steps.empty()) {
      fail_non_finite(name, "validation loss", epoch, update);
    }
    figures.train_loss.push_back(epoch_loss / static_cast<double>(order.size()));
    figures.validation_loss.push_back(validation_loss);
    best.offer(epoch, validation_loss, parameters);
    progress.advance(1);
  }
  progress.advance(config.epochs - (epoch - 1));
  figures.chosen_epoch = best.epoch();
  std::copy(best.parameters().begin(), best.parameters().end(), parameters.begin());
}

}  // namespace dgap::trainer
