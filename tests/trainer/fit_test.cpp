#include "trainer/fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "tests/trainer/data.hpp"

namespace dgap::trainer {
namespace {

/// Mean of (w x_i - y_i)^2 / 2 with one weight.
class Parabola : public Objective<float> {
 public:
  Parabola(std::vector<float> x, std::vector<float> y) : x_(std::move(x)), y_(std::move(y)) {}
  double chunk(std::span<const std::int32_t> steps, const float* w,
               float* gradient) const override {
    double sum = 0.0;
    for (const std::int32_t s : steps) {
      const float d = w[0] * x_[s] - y_[s];
      sum += 0.5 * double{d} * d;
      if (gradient != nullptr) gradient[0] += d * x_[s];
    }
    return sum;
  }

 private:
  std::vector<float> x_, y_;
};

std::vector<std::int32_t> range(int count) {
  std::vector<std::int32_t> steps(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) steps[i] = i;
  return steps;
}

Parabola parabola(float slope, int count) {
  std::vector<float> x, y;
  for (int i = 0; i < count; ++i) {
    x.push_back(static_cast<float>(1 + i % 5));
    y.push_back(slope * x.back());
  }
  return {x, y};
}

struct Outcome {
  std::vector<float> parameters{0.0f};
  schemas::TrainingFigures figures;
};

Outcome run(const Split& training, const Split& validation, schemas::TrainingConfig config) {
  Outcome r;
  base::Random random(1, "test");
  base::Progress progress;
  fit("precision P, test", training, validation, config, {0.0f}, r.parameters, random, progress,
      r.figures);
  return r;
}

schemas::TrainingConfig quick() {
  schemas::TrainingConfig config;
  config.epochs = 30;
  config.batch = 32;
  config.learning_rate = 0.05;
  return config;
}

TEST(Fit, FindsTheMinimum) {
  const Parabola p = parabola(1.5f, 100);
  const Outcome r = run({&p, range(100)}, {&p, range(100)}, quick());
  EXPECT_NEAR(r.parameters[0], 1.5f, 1e-2);
  EXPECT_EQ(r.figures.training_steps, 100);
  EXPECT_LT(r.figures.train_loss.back(), r.figures.train_loss.front());
  EXPECT_EQ(r.figures.train_loss.size(), r.figures.validation_loss.size());
}

TEST(Fit, StopsEarlyAndKeepsTheBestEpoch) {
  const Parabola training = parabola(1.5f, 100), validation = parabola(0.6f, 40);
  schemas::TrainingConfig config = quick();
  config.patience = 3;
  const Outcome r = run({&training, range(100)}, {&validation, range(40)}, config);
  const auto& losses = r.figures.validation_loss;
  const int best = r.figures.chosen_epoch;
  EXPECT_GE(best, 1);
  EXPECT_EQ(static_cast<int>(losses.size()), best + 3);
  for (const double loss : losses) EXPECT_GE(loss, losses[best - 1]);
  const double kept = mean_loss({&validation, range(40)}, r.parameters);
  EXPECT_EQ(kept, losses[best - 1]);
}

TEST(Fit, KeepsTheInitialParametersWhenNothingImprovesOnThem) {
  const Parabola training = parabola(1.5f, 100), validation = parabola(-1.0f, 40);
  const Outcome r = run({&training, range(100)}, {&validation, range(40)}, quick());
  EXPECT_EQ(r.figures.chosen_epoch, 0);
  EXPECT_EQ(r.parameters[0], 0.0f);
}

TEST(Fit, WithoutValidationStepsTheLastEpochCounts) {
  const Parabola p = parabola(1.5f, 50);
  const Outcome r = run({&p, range(50)}, {&p, {}}, quick());
  EXPECT_EQ(r.figures.chosen_epoch, 30);
  EXPECT_TRUE(std::isnan(r.figures.validation_loss.back()));
  EXPECT_NEAR(r.parameters[0], 1.5f, 5e-2);
}

TEST(Fit, NamesEpochAndUpdateOfANonFiniteLoss) {
  std::vector<float> x(100, 1.0f), y(100, 1.0f);
  y[57] = std::numeric_limits<float>::quiet_NaN();
  const Parabola bad(x, y);
  const Parabola good = parabola(1.0f, 10);
  try {
    run({&bad, range(100)}, {&good, range(10)}, quick());
    FAIL();
  } catch (const base::FailedError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("precision P, test"));
    EXPECT_THAT(error.what(), ::testing::ContainsRegex("not finite in epoch 1, update [1-4]"));
  }
}

TEST(Fit, ShuffleIsOurOwn) {  // the same numbers on every platform
  base::Random random(1, "detector/K1V1");
  std::vector<std::int32_t> order = range(10);
  random.shuffle(std::span(order));
  EXPECT_THAT(order, ::testing::ElementsAre(3, 4, 2, 6, 1, 5, 8, 7, 9, 0));
}

}  // namespace
}  // namespace dgap::trainer
