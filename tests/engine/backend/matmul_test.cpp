#include "engine/backend/cpu/matmul.hpp"

#include <gtest/gtest.h>

#include <oneapi/tbb/global_control.h>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/half.hpp"
#include "base/random.hpp"
#include "tests/engine/backend/isas.hpp"

namespace dgap::engine {
namespace {

struct Case {
  std::int64_t rows, outputs, inputs;
};

std::vector<float> normals(std::int64_t count, const char* purpose) {
  base::Random random(3, purpose);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = static_cast<float>(random.normal());
  return values;
}

float rounded(Compute compute, float x) {
  return compute == Compute::f32 ? x : base::from_bfloat16(base::to_bfloat16(x));
}

/// A product through the kernels, and the same in f64 from the rounded operands.
class Product {
 public:
  Product(Isa isa, Compute compute, Case shape)
      : shape_(shape),
        compute_(compute),
        x_(normals(shape.rows * shape.inputs, "x")),
        w_(normals(shape.outputs * shape.inputs, "w")),
        matrix_(product_kernel(isa, compute), shape.outputs, shape.inputs),
        activations_(compute, shape.inputs) {
    for (std::int64_t row = 0; row < shape.outputs; ++row)
      matrix_.set_row(row, w_.data() + row * shape.inputs);
    activations_.reserve(shape.rows);
    for (std::int64_t r = 0; r < shape.rows; ++r)
      activations_.store(r, 0, shape.inputs, x_.data() + r * shape.inputs);
  }

  /// y = start + x W^T where `add`; rows past the last are room for the kernels.
  std::vector<float> run(bool add) const {
    std::vector<float> y(
        static_cast<std::size_t>(round_up<std::int64_t>(shape_.rows, kRowStep) * shape_.outputs),
        2.5f);
    multiply(matrix_, activations_, shape_.rows, y.data(), add);
    y.resize(static_cast<std::size_t>(shape_.rows * shape_.outputs));
    return y;
  }

  /// Sums in f32 of n products err by at most n 2^-24 times the sum of the products' magnitudes.
  void expect_near(const std::vector<float>& y, double start) const {
    for (std::int64_t r = 0; r < shape_.rows; ++r)
      for (std::int64_t o = 0; o < shape_.outputs; ++o) {
        double sum = start, magnitude = std::abs(start);
        for (std::int64_t i = 0; i < shape_.inputs; ++i) {
          const double product =
              double{rounded(compute_, x_[static_cast<std::size_t>(r * shape_.inputs + i)])} *
              rounded(compute_, w_[static_cast<std::size_t>(o * shape_.inputs + i)]);
          sum += product, magnitude += std::abs(product);
        }
        const double bound = static_cast<double>(shape_.inputs + 2) * 0x1p-24 * magnitude;
        ASSERT_NEAR(y[static_cast<std::size_t>(r * shape_.outputs + o)], sum, bound)
            << "row " << r << " output " << o;
      }
  }

  const PanelMatrix& matrix() const { return matrix_; }
  const Activations& activations() const { return activations_; }
  const std::vector<float>& weights() const { return w_; }

 private:
  Case shape_;
  Compute compute_;
  std::vector<float> x_, w_;
  PanelMatrix matrix_;
  Activations activations_;
};

const Case kCases[] = {{1, 32, 32}, {16, 64, 96},  {17, 40, 80},
                       {33, 7, 50}, {300, 96, 64}, {5, 33, 1}};

template <class Check>
void for_all(const Check& check) {
  for (const Isa isa : testing::isas())
    for (const Compute compute : {Compute::f32, Compute::bf16})
      for (const Case& shape : kCases) {
        SCOPED_TRACE(std::string(product_kernel(isa, compute).name) +
                     (compute == Compute::f32 ? " f32 " : " bf16 ") + std::to_string(shape.rows) +
                     "x" + std::to_string(shape.outputs) + "x" + std::to_string(shape.inputs));
        check(isa, compute, shape);
      }
}

TEST(Matmul, EqualsTheSumInF64) {
  for_all([](Isa isa, Compute compute, Case shape) {
    const Product product(isa, compute, shape);
    product.expect_near(product.run(false), 0.0);
    product.expect_near(product.run(true), 2.5);
  });
}

TEST(Matmul, ARowDoesNotDependOnItsNeighbours) {
  for_all([](Isa isa, Compute compute, Case shape) {
    const Product product(isa, compute, shape);
    const std::vector<float> y = product.run(false);
    const PanelMatrix& matrix = product.matrix();
    for (std::int64_t r = 0; r < shape.rows; r += 5)
      for (std::int64_t panel = 0; panel < matrix.panels(); ++panel) {
        const KernelScope scope(matrix.kernel());
        float alone[kRowStep * kPanel];
        matrix.multiply(panel, product.activations(), r, 1, alone, kPanel, false);
        const std::int64_t columns = std::min<std::int64_t>(kPanel, shape.outputs - panel * kPanel);
        for (std::int64_t c = 0; c < columns; ++c)
          ASSERT_EQ(alone[c], y[static_cast<std::size_t>(r * shape.outputs + panel * kPanel + c)]);
      }
  });
}

TEST(Matmul, IsTheSameForAnyThreadCount) {
  const Product product(detected_isa(), Compute::bf16, {300, 96, 64});
  const std::vector<float> expected = product.run(false);
  for (const std::size_t threads : {1, 2, 3}) {
    const oneapi::tbb::global_control control(oneapi::tbb::global_control::max_allowed_parallelism,
                                              threads);
    EXPECT_EQ(product.run(false), expected);
  }
}

TEST(Matmul, LeavesTheColumnsBesideAPartialPanelAlone) {
  for (const Compute compute : {Compute::f32, Compute::bf16}) {
    const Product product(detected_isa(), compute, {17, 40, 80});
    const std::int64_t stride = 50;
    std::vector<float> y(32 * stride, -1.0f);
    const KernelScope scope(product.matrix().kernel());
    multiply_panel(product.matrix(), 1, product.activations(), 0, 17, 8, y.data(), stride, false);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const bool written = i / 50 < 17 && i % 50 < 8;
      ASSERT_EQ(y[i] != -1.0f, written) << i;
    }
  }
}

TEST(Matmul, GivesWeightsBackAsRounded) {
  for (const Compute compute : {Compute::f32, Compute::bf16}) {
    const Product product(detected_isa(), compute, {1, 40, 50});
    std::vector<float> row(50);
    product.matrix().row(39, row.data());
    for (std::size_t i = 0; i < row.size(); ++i)
      EXPECT_EQ(row[i], rounded(compute, product.weights()[39 * 50 + i]));
  }
}

TEST(Activations, TakeColumnsAcrossSlabs) {
  for (const Compute compute : {Compute::f32, Compute::bf16}) {
    Activations activations(compute, 80);
    activations.reserve(3);
    const std::vector<float> values = normals(80, "values");
    activations.store(2, 0, 30, values.data());
    activations.store(2, 30, 50, values.data() + 30);
    PanelMatrix identity(product_kernel(detected_isa(), compute), 80, 80);
    for (std::int64_t i = 0; i < 80; ++i) {
      std::vector<float> unit(80);
      unit[static_cast<std::size_t>(i)] = 1.0f;
      identity.set_row(i, unit.data());
    }
    std::vector<float> y(16 * 80);
    multiply(identity, activations, 3, y.data(), false);
    for (std::size_t i = 0; i < 80; ++i) EXPECT_EQ(y[2 * 80 + i], rounded(compute, values[i]));
  }
}

}  // namespace
}  // namespace dgap::engine
