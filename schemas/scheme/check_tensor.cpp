#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>

#include "schemas/scheme/check.hpp"
#include "schemas/scheme/limits.hpp"
#include "schemas/scheme/names.hpp"

namespace dgap::schemas {
namespace {

/// The checks of one tensor; messages start with key or value.
class TensorCheck {
 public:
  TensorCheck(const Check& check, const std::string& which, const TensorScheme& tensor,
              int head_dim)
      : check_(check), which_(which), tensor_(tensor), head_dim_(head_dim) {}

  void run() const {
    bits();
    if (tensor_.quantizer == Quantizer::exact) {
      require(tensor_ == TensorScheme{},
              " is exact (16 bits), so axis must be token, group_size 0, center, normalize and "
              "rotate false, window sliding and every other setting its default");
      return;
    }
    groups();
    rotation();
    transformations();
    levels();
    owned_settings();
    if (head_dim_ > 0) shape();
  }

 private:
  void require(bool ok, const std::string& message) const { check_.require(ok, which_ + message); }
  std::string quantizer() const { return std::string(name_of(tensor_.quantizer)); }
  std::string dim() const { return "the model's head_dim " + std::to_string(head_dim_); }
  bool is(std::initializer_list<Quantizer> some) const {
    for (const Quantizer q : some)
      if (tensor_.quantizer == q) return true;
    return false;
  }
  bool turboquant() const { return is({Quantizer::turboquant_mse, Quantizer::turboquant_prod}); }
  bool fp8() const { return is({Quantizer::fp8_e4m3, Quantizer::fp8_e5m2}); }

  void bits() const {
    const BitWidths widths = bit_widths(tensor_.quantizer);
    require(
        tensor_.bits == 5 || is_bit_width(tensor_.bits),
        ".bits is " + std::to_string(tensor_.bits) + "; it must be 1, 2, 3, 4, 5, 8 or 16 (exact)");
    require(widths.has(tensor_.bits), ".quantizer is " + quantizer() + " at " + which_ + ".bits " +
                                          std::to_string(tensor_.bits) + "; " + quantizer() +
                                          " has " + widths.shown() + " bits");
  }

  void groups() const {
    const std::string group = ".group_size is " + std::to_string(tensor_.group_size);
    if (tensor_.quantizer == Quantizer::kvquant) {
      require(tensor_.group_size == 0, group + "; " + quantizer() +
                                           " has one scale per token or channel of a layer; set "
                                           "it to 0");
    } else if (fp8() || turboquant()) {
      require(tensor_.axis == GroupAxis::token && tensor_.group_size == 0,
              ": " + quantizer() + " has no groups; axis must be token and group_size 0");
    } else if (is_block(tensor_.quantizer)) {
      require(
          tensor_.axis == GroupAxis::token && tensor_.group_size == kBlockSize,
          ": " + quantizer() + " has blocks of 32 channels; axis must be token and group_size 32");
    } else if (tensor_.group_size != 0 || tensor_.axis == GroupAxis::channel ||
               tensor_.quantizer == Quantizer::kvarn || spans_heads(tensor_)) {
      require(tensor_.group_size >= kMinGroup && tensor_.group_size <= kMaxGroup,
              group + "; it must lie in [" + std::to_string(kMinGroup) + ", " +
                  std::to_string(kMaxGroup) + "]");
    }
  }

  void rotation() const {
    require(tensor_.rotate || tensor_.rotation == RotationKind::signed_hadamard,
            ".rotation is " + std::string(name_of(tensor_.rotation)) + ", but " + which_ +
                ".rotate is false; set it to true or leave the rotation out");
    if (!turboquant()) return;
    const bool every_width = tensor_.rotation == RotationKind::haar;
    require(tensor_.rotate && (every_width || tensor_.rotation == RotationKind::signed_hadamard ||
                               tensor_.rotation == RotationKind::hadamard),
            ": " + quantizer() +
                " codes directions of rotated vectors; set rotate: true with rotation haar, "
                "signed_hadamard or hadamard");
    require(tensor_.outlier_bits == 0 || every_width,
            ".outlier_bits makes two instances of any width; they need rotation: haar");
  }

  void transformations() const {
    require(tensor_.quantizer != Quantizer::kvarn || !tensor_.normalize,
            ": kvarn normalises variances itself; set normalize to false");
    require(!spans_heads(tensor_) || !(tensor_.center || tensor_.normalize || tensor_.rotate),
            ": " + quantizer() +
                " codes the tensor as it is; set center, normalize and rotate to "
                "false");
  }

  void levels() const {
    if (tensor_.quantizer != Quantizer::codebook) {
      require(tensor_.levels.empty(),
              ".levels belong to quantizer codebook, not to " + quantizer());
      return;
    }
    const std::size_t count = std::size_t{1} << tensor_.bits;
    bool ascending = tensor_.levels.size() == count;
    float last = -std::numeric_limits<float>::infinity();
    for (const float level : tensor_.levels) {
      ascending = ascending && std::fabs(level) <= 1.0f && level > last;
      last = level;
    }
    require(ascending,
            ".levels must be " + std::to_string(count) +
                " ascending numbers in [-1, 1], in units of a group's largest magnitude");
  }

  /// Settings that belong to some quantisers only.
  void owned_settings() const {
    const TensorScheme plain;
    const auto owned = [&](bool used, const char* key, bool mine, const char* owners) {
      require(!used || mine, std::string(".") + key + " belongs to quantizer " + owners +
                                 ", not to " + quantizer() + "; leave it out");
    };
    owned(tensor_.scale != plain.scale, "scale", fp8(), "fp8_e4m3 and fp8_e5m2");
    require(tensor_.scale == 0.0f || (tensor_.scale >= 1e-30f && tensor_.scale <= 1e30f),
            ".scale must lie in [1e-30, 1e30], or be 0: calibrated on each prefix");
    owned(tensor_.layer_scale, "layer_scale", fp8(), "fp8_e4m3 and fp8_e5m2");
    require(!tensor_.layer_scale || tensor_.scale == 0.0f,
            ".layer_scale is of calibrated scales; leave .scale out");
    owned(tensor_.norm_correction, "norm_correction", is({Quantizer::turboquant_mse}),
          "turboquant_mse");
    owned(tensor_.sketch != plain.sketch, "sketch", is({Quantizer::turboquant_prod}),
          "turboquant_prod");
    owned(tensor_.outlier_bits != 0, "outlier_bits", turboquant(),
          "turboquant_mse and turboquant_prod");
    require(tensor_.outlier_bits == 0 ||
                (tensor_.outlier_bits > tensor_.bits && tensor_.outlier_bits <= 4),
            ".outlier_bits is " + std::to_string(tensor_.outlier_bits) + "; it must lie in (" +
                which_ + ".bits, 4], or be 0");
    owned(tensor_.iterations != plain.iterations, "iterations", is({Quantizer::kvarn}), "kvarn");
    owned(tensor_.outliers != 0.0, "outliers", is({Quantizer::kvquant}), "kvquant");
    require(tensor_.outliers >= 0.0 && tensor_.outliers <= 0.1,
            ".outliers must lie in [0, 0.1], a share of the values");
    owned(tensor_.q_norm, "q_norm", is({Quantizer::kvquant}), "kvquant");
    require(tensor_.iterations >= 0 && tensor_.iterations <= 64,
            ".iterations is " + std::to_string(tensor_.iterations) + "; it must lie in [0, 64]");
  }

  void shape() const {
    const bool by_token = tensor_.axis == GroupAxis::token &&
                          tensor_.quantizer != Quantizer::kvarn && !spans_heads(tensor_);
    if (by_token && tensor_.group_size != 0)
      require(head_dim_ % tensor_.group_size == 0,
              ".group_size " + std::to_string(tensor_.group_size) + " does not divide " + dim() +
                  (is_block(tensor_.quantizer)
                       ? "; this quantizer cannot serve the model"
                       : "; choose a divisor of it, or 0 for one group per token"));
    if (tensor_.rotate && (tensor_.rotation == RotationKind::signed_hadamard ||
                           tensor_.rotation == RotationKind::hadamard))
      require(std::has_single_bit(static_cast<unsigned>(head_dim_)),
              ".rotate needs a power of two, but " + dim() +
                  " is none; set rotation: haar, or rotate to false (family: custom), or use the "
                  "uniform family");
    const int outliers = outlier_channels(tensor_, head_dim_);
    if (tensor_.outlier_bits != 0)
      require(head_dim_ % 4 == 0 && outliers >= 8,
              ".outlier_bits takes a quarter of the channels, at least 8, but " + dim() +
                  " has no such quarter; set outlier_bits to 0");
    if (tensor_.quantizer == Quantizer::turboquant_prod)
      require(outliers % 8 == 0 && head_dim_ % 8 == 0,
              ": turboquant_prod packs eight signs a byte, which does not fit " + dim() +
                  "; use turboquant_mse");
    if (turboquant())
      require(head_dim_ >= 8,
              ": " + quantizer() + " needs at least 8 channels, more than " + dim());
  }

  const Check& check_;
  const std::string& which_;
  const TensorScheme& tensor_;
  int head_dim_;
};

}  // namespace

void check_tensor(const Check& check, const std::string& which, const TensorScheme& tensor,
                  int head_dim) {
  TensorCheck(check, which, tensor, head_dim).run();
}

}  // namespace dgap::schemas
