#pragma once
#include <cstdint>

/// The losses of detector and corrector with their gradients (docs/training.md).
namespace dgap::trainer {

/// Binary cross-entropy from a logit (arXiv:2607.16248 Eq. 10), in its stable form: weight of the
/// class times log(1 + exp(-x)) for y = 1, log(1 + exp(x)) for y = 0. Returns the sum over `count`
/// samples; sets gradient[i] unless null.
double binary_cross_entropy(const float* logits, const std::uint8_t* labels, double positive_weight,
                            std::int64_t count, float* gradient);
double binary_cross_entropy(const double* logits, const std::uint8_t* labels,
                            double positive_weight, std::int64_t count, double* gradient);

/// What a window's distribution is pulled towards: `probability` [k] over the candidates plus,
/// where the vocabulary is larger than the window, one class that holds everything else.
struct WindowTarget {
  const float* probability = nullptr;
  int k = 0;
  bool has_tail = false;
  float tail_probability = 0.0f;
  double tail_logit = 0.0;        // log-sum of the logits outside the window, which no edit touches
  double negative_entropy = 0.0;  // sum of p log(p / M) over all classes, M = sum of p (near 1)
};

/// KL(target || softmax((z, tail) / temperature)) in nats (Eq. 15), in f64 whatever Real is: K8V8's
/// differences would be lost in f32. Sets gradient[i], i < k, unless null.
double window_kl(const float* z, const WindowTarget& target, double temperature, float* gradient);
double window_kl(const double* z, const WindowTarget& target, double temperature, double* gradient);

/// Sum over pairs ranked i above j by the reference of (p_i - p_j) log(1 + exp(-(z_i - z_j)))
/// (Eq. 16). z and p [k] are in the reference's order, so p descends and ties weigh nothing; both
/// are padded to a multiple of base::kLanes with p = kRankingPad and finite z. gradient [padded k]
/// is set. All pairs, none left out.
inline constexpr float kRankingPad = 1.0f;  // no candidate is above it
double ranking_loss(const float* z, const float* p, int k, float* gradient);
double ranking_loss(const double* z, const float* p, int k, double* gradient);

}  // namespace dgap::trainer
