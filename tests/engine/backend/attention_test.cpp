#include "engine/backend/cpu/attention.hpp"

#include <gtest/gtest.h>

#include <oneapi/tbb/global_control.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/half.hpp"
#include "base/random.hpp"
#include "engine/cache/window.hpp"
#include "tests/engine/backend/isas.hpp"

namespace dgap::engine {
namespace {

using schemas::WindowRule;
using Values = std::vector<float>;

/// The window of one tensor; R < 0: exact.
struct Rule {
  int residual;
  WindowRule rule = WindowRule::sliding;
  Window window(std::int64_t sinks) const {
    const schemas::TensorScheme codes{
        .bits = 1, .quantizer = schemas::Quantizer::sign_mean, .window = rule};
    return residual < 0 ? Window() : Window(codes, residual, sinks, 0);
  }
};
/// Of the keys and of the values of one head.
struct Rules {
  Rule keys, values;
};

/// Both copies of random keys and values, with window rules (head h has rules[h mod their number]),
/// sinks, a rotated key space (a signed permutation of channels) and centred values in a space of
/// their own (the same permutation).
class FakeCache : public KvCache {
 public:
  FakeCache(int kv_heads, int head_dim, std::int64_t tokens, std::int64_t sinks,
            std::vector<Rules> rules, bool rotates)
      : shape_{1, kv_heads, head_dim, 10000.0},
        sinks_(sinks),
        rules_(std::move(rules)),
        rotates_(rotates) {
    base::Random random(11);
    const auto fill = [&](Values& values, std::int64_t count, double scale) {
      values.resize(static_cast<std::size_t>(count));
      for (float& x : values) x = static_cast<float>(scale * random.normal());
    };
    const std::int64_t count = tokens * kv_heads * head_dim;
    for (Values* values : {&keys_[0], &keys_[1], &values_[0], &values_[1]})
      fill(*values, count, 1.0);
    fill(mean_, std::int64_t{kv_heads} * head_dim, 0.5);
  }

  /// What a row sees of a token in the model's space.
  Values key(int head, std::int64_t token, Copy copy) const {
    Values row(static_cast<std::size_t>(shape_.head_dim));
    read(keys_, head, copy, token, token + 1, row.data());
    if (copy == Copy::quantized && rotates_) unpermute(row.data());
    return row;
  }
  Values value(int head, std::int64_t token, Copy copy) const {
    Values row(static_cast<std::size_t>(shape_.head_dim));
    read(values_, head, copy, token, token + 1, row.data());
    if (copy == Copy::exact) return row;
    unpermute(row.data());
    for (int i = 0; i < shape_.head_dim; ++i)
      row[static_cast<std::size_t>(i)] +=
          mean_[static_cast<std::size_t>(head * shape_.head_dim + i)];
    return row;
  }

  const CacheShape& shape() const override { return shape_; }
  std::int64_t length() const override { return 0; }
  int views() const override { return static_cast<int>(rules_.size()); }
  int view(int, int head) const override { return head % views(); }
  ExactTokens exact_tokens(int view, std::int64_t position) const override {
    const Rules& rules = rules_[static_cast<std::size_t>(view)];
    return {sinks_, rules.keys.window(sinks_).exact_begin(position),
            rules.values.window(sinks_).exact_begin(position)};
  }
  void append(int, std::int64_t, const float*, const float*) override {}
  void read_keys(int, int head, Copy copy, std::int64_t begin, std::int64_t end,
                 float* out) const override {
    read(keys_, head, copy, begin, end, out);
  }
  void read_values(int, int head, Copy copy, std::int64_t begin, std::int64_t end,
                   float* out) const override {
    read(values_, head, copy, begin, end, out);
  }
  bool rotates_queries(int, int) const override { return rotates_; }
  bool fine_keys(int, int) const override { return true; }
  void rotate_queries(int, int, std::int64_t rows, float* queries) const override {
    for (std::int64_t r = 0; r < rows; ++r) permute(queries + r * shape_.head_dim);
  }
  void finish_values(int, int head, std::int64_t rows, const float* mass,
                     float* sums) const override {
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = sums + r * shape_.head_dim;
      unpermute(row);
      for (int i = 0; i < shape_.head_dim; ++i)
        row[i] += mass[r] * mean_[static_cast<std::size_t>(head * shape_.head_dim + i)];
    }
  }
  CacheBytes bytes() const override { return {}; }

 private:
  void read(const Values (&copies)[2], int head, Copy copy, std::int64_t begin, std::int64_t end,
            float* out) const {
    const Values& from = copies[copy == Copy::exact ? 0 : 1];
    const std::int64_t d = shape_.head_dim;
    for (std::int64_t t = begin; t < end; ++t)
      std::copy_n(from.begin() + (t * shape_.kv_heads + head) * d, d, out + (t - begin) * d);
  }
  void permute(float* row) const {
    std::rotate(row, row + 3, row + shape_.head_dim);
    for (int i = 0; i < shape_.head_dim; i += 2) row[i] = -row[i];
  }
  void unpermute(float* row) const {
    for (int i = 0; i < shape_.head_dim; i += 2) row[i] = -row[i];
    std::rotate(row, row + shape_.head_dim - 3, row + shape_.head_dim);
  }

  CacheShape shape_;
  std::int64_t sinks_;
  std::vector<Rules> rules_;
  bool rotates_;
  Values keys_[2], values_[2], mean_;
};

struct Case {
  std::string name;
  int heads, kv_heads, head_dim;
  std::int64_t first, rows, sinks;
  std::vector<Rules> rules;
  bool rotates;
};

std::vector<Rules> together(int residual) { return {{{residual}, {residual}}}; }

const Case kCases[] = {
    {"prefill from nothing", 3, 1, 64, 0, 70, 0, together(-1), false},
    {"prefill, several tiles and heads", 4, 2, 16, 300, 250, 0, together(-1), false},
    {"one step", 6, 2, 64, 515, 1, 0, together(-1), false},
    {"quantised, current token exact", 3, 1, 64, 600, 40, 4, together(0), false},
    {"quantised, window and rotation", 4, 2, 32, 513, 50, 4, together(32), true},
    {"window longer than the text", 2, 1, 16, 10, 20, 4, together(128), true},
    {"sinks longer than the text", 2, 1, 16, 0, 20, 64, together(0), true},
    {"head_dim 80", 2, 1, 80, 280, 9, 0, together(16), false},
    {"head_dim 128", 2, 2, 128, 250, 33, 3, together(5), true},
    {"several runs of tiles", 2, 1, 16, 4400, 70, 4, together(40), false},
    {"keys of a prefix quantised, values exact", 2, 1, 16, 500, 30, 4, {{{40}, {-1}}}, true},
    {"values quantised, keys exact", 2, 1, 16, 500, 30, 4, {{{-1}, {40}}}, true},
    {"keys flushed, values lagging",
     4,
     2,
     32,
     240,
     140,
     2,
     {{{32, WindowRule::flush}, {32, WindowRule::lagging}}},
     true},
    {"values flushed, keys sliding: either is ahead at times",
     2,
     1,
     16,
     200,
     150,
     0,
     {{{20}, {64, WindowRule::flush}}},
     true},
    {"nothing exact", 2, 1, 16, 0, 90, 0, {{{0, WindowRule::none}, {0, WindowRule::none}}}, true},
    {"the own value alone is exact", 2, 1, 16, 0, 90, 3, {{{0, WindowRule::none}, {0}}}, false},
    {"heads of three kinds",
     8,
     4,
     32,
     600,
     70,
     4,
     {{{-1}, {-1}}, {{16}, {-1}}, {{64, WindowRule::flush}, {5, WindowRule::lagging}}},
     true},
};

class Setting {
 public:
  explicit Setting(const Case& c)
      : c_(c),
        cache_(c.kv_heads, c.head_dim, c.first + c.rows, c.sinks, c.rules, c.rotates),
        rope_(c.head_dim, 10000.0, c.first + c.rows) {
    base::Random random(12);
    queries_.resize(static_cast<std::size_t>(c.rows * c.heads * c.head_dim));
    for (float& x : queries_) x = static_cast<float>(1.5 * random.normal());
  }

  /// Rows [begin, end) of the block in one call; [end - begin, heads * head_dim] as bf16 or f32.
  std::vector<float> rows(Isa isa, Compute compute, std::int64_t begin, std::int64_t end) const {
    const Attention attention(c_.heads, cache_.shape(), attention_kernel(isa, compute));
    const Attention::Plan plan(attention, cache_, c_.first + begin, end - begin);
    const std::int64_t width = std::int64_t{c_.heads} * c_.head_dim;
    Activations out(Compute::f32, width);
    out.reserve(end - begin);
    Attention::Workspace workspace;
    attention.run(plan, cache_, rope_, 0, queries_.data() + begin * width, out, workspace);
    const auto* first = static_cast<const float*>(out.row(0));
    return {first, first + (end - begin) * width};
  }

  double worst_error(const std::vector<float>& ours) const {
    double worst = 0;
    for (std::int64_t r = 0; r < c_.rows; ++r)
      for (int h = 0; h < c_.heads; ++h) {
        const std::vector<double> expected = reference(r, h);
        for (int i = 0; i < c_.head_dim; ++i)
          worst = std::max(
              worst,
              std::abs(expected[static_cast<std::size_t>(i)] -
                       ours[static_cast<std::size_t>((r * c_.heads + h) * c_.head_dim + i)]));
      }
    return worst;
  }

 private:
  std::vector<double> reference(std::int64_t row, int head) const {
    const std::int64_t position = c_.first + row;
    const int kv_head = head / (c_.heads / c_.kv_heads);
    Values query(static_cast<std::size_t>(c_.head_dim));
    rope_.apply(position, 1, queries_.data() + (row * c_.heads + head) * c_.head_dim, c_.head_dim,
                query.data());
    std::vector<double> scores;
    const ExactTokens exact = cache_.exact_tokens(cache_.view(0, kv_head), position);
    const auto copy = [&](std::int64_t t, std::int64_t begin) {
      return t < exact.sinks || t >= begin ? Copy::exact : Copy::quantized;
    };
    for (std::int64_t t = 0; t <= position; ++t) {
      const Values key = cache_.key(kv_head, t, copy(t, exact.keys));
      double score = 0;
      for (std::size_t i = 0; i < key.size(); ++i) score += double{query[i]} * key[i];
      scores.push_back(score / std::sqrt(c_.head_dim));
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    std::vector<double> sums(static_cast<std::size_t>(c_.head_dim));
    double mass = 0;
    for (std::int64_t t = 0; t <= position; ++t) {
      const double weight = std::exp(scores[static_cast<std::size_t>(t)] - top);
      const Values value = cache_.value(kv_head, t, copy(t, exact.values));
      mass += weight;
      for (std::size_t i = 0; i < value.size(); ++i) sums[i] += weight * value[i];
    }
    for (double& x : sums) x /= mass;
    return sums;
  }

  Case c_;
  FakeCache cache_;
  RopeTable rope_;
  Values queries_;
};

/// Kernels that differ on this machine.
template <class Check>
void for_all_kernels(const Check& check) {
  for (const Isa isa : testing::isas())
    for (const Compute compute : {Compute::f32, Compute::bf16}) {
      SCOPED_TRACE(attention_kernel(isa, compute).name);
      if (compute == Compute::f32 ||
          &attention_kernel(isa, compute) != &attention_kernel(isa, Compute::f32))
        check(isa, compute);
    }
}

TEST(Attention, EqualsTheDefinitionInF64) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Setting setting(c);
    for_all_kernels([&](Isa isa, Compute compute) {
      // f32: scores of magnitude 30 err by some 1e-6. bf16: weights and values of magnitude 4 are
      // rounded to 2^-9, mostly averaged out.
      const bool exact = attention_kernel(isa, compute).natural;
      EXPECT_LT(setting.worst_error(setting.rows(isa, compute, 0, c.rows)), exact ? 2e-5 : 1.6e-2);
    });
  }
}

TEST(Attention, ARowDoesNotDependOnItsBlock) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Setting setting(c);
    const std::int64_t width = std::int64_t{c.heads} * c.head_dim;
    for_all_kernels([&](Isa isa, Compute compute) {
      const std::vector<float> whole = setting.rows(isa, compute, 0, c.rows);
      for (const std::int64_t r : {std::int64_t{0}, c.rows / 3, c.rows - 1}) {
        const std::vector<float> alone = setting.rows(isa, compute, r, r + 1);
        ASSERT_TRUE(std::equal(alone.begin(), alone.end(), whole.begin() + r * width))
            << "row " << r;
      }
    });
  }
}

TEST(Attention, IsTheSameForAnyThreadCount) {
  for (const Case& c : kCases) {
    const Setting setting(c);
    std::vector<float> expected;
    for (const std::size_t threads : {1, 2, 3}) {
      const oneapi::tbb::global_control control(
          oneapi::tbb::global_control::max_allowed_parallelism, threads);
      const std::vector<float> rows = setting.rows(detected_isa(), Compute::bf16, 0, c.rows);
      if (expected.empty()) expected = rows;
      EXPECT_EQ(rows, expected) << c.name;
    }
  }
}

TEST(Attention, AKeyThatIsNoNumberShows) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()})
    for (const std::int64_t where : {0, 150, 300})
      for_all_kernels([&](Isa isa, Compute compute) {
        class BadCache : public FakeCache {
         public:
          BadCache(std::int64_t at, float value)
              : FakeCache(1, 64, 301, 0, together(-1), false), at_(at), value_(value) {}
          void read_keys(int layer, int head, Copy copy, std::int64_t begin, std::int64_t end,
                         float* out) const override {
            FakeCache::read_keys(layer, head, copy, begin, end, out);
            if (begin <= at_ && at_ < end) out[(at_ - begin) * 64 + 5] = value_;
          }

         private:
          std::int64_t at_;
          float value_;
        } cache(where, bad);
        const Attention attention(1, cache.shape(), attention_kernel(isa, compute));
        const Attention::Plan plan(attention, cache, 300, 1);
        Activations out(Compute::f32, 64);
        out.reserve(1);
        Attention::Workspace workspace;
        const RopeTable rope(64, 10000.0, 301);
        const std::vector<float> query(64, 1.0f);
        attention.run(plan, cache, rope, 0, query.data(), out, workspace);
        const float* row = static_cast<const float*>(out.row(0));
        // One that is below all others by infinity weighs nothing.
        const bool seen = std::any_of(row, row + 64, [](float x) { return !std::isfinite(x); });
        EXPECT_TRUE(seen || bad < 0 || attention_kernel(isa, compute).natural)
            << bad << " " << where;
      });
}

TEST(Attention, KeepsScoresBeyondFp16) {
  // Dot products of 460'800 as in models with large keys: the weights are those of the largest key.
  for_all_kernels([&](Isa isa, Compute compute) {
    class LargeCache : public FakeCache {
     public:
      LargeCache() : FakeCache(1, 128, 3, 0, together(-1), false) {}
      void read_keys(int, int, Copy, std::int64_t begin, std::int64_t end,
                     float* out) const override {
        for (std::int64_t t = begin; t < end; ++t)
          std::fill_n(out + (t - begin) * 128, 128, t == 1 ? 60.0f : 59.0f);
      }
      void read_values(int, int, Copy, std::int64_t begin, std::int64_t end,
                       float* out) const override {
        for (std::int64_t t = begin; t < end; ++t)
          std::fill_n(out + (t - begin) * 128, 128, static_cast<float>(t));
      }
    } cache;
    const Attention attention(1, cache.shape(), attention_kernel(isa, compute));
    const Attention::Plan plan(attention, cache, 2, 1);
    Activations out(Compute::f32, 128);
    out.reserve(1);
    Attention::Workspace workspace;
    const RopeTable no_rotation(128, 1e300, 3);  // angles vanish, but for the first pair
    std::vector<float> query(128, 60.0f);
    query[0] = query[64] = 0.0f;
    attention.run(plan, cache, no_rotation, 0, query.data(), out, workspace);
    for (int i = 0; i < 128; ++i)
      EXPECT_NEAR(static_cast<const float*>(out.row(0))[i], 1.0f, 1e-6f);
  });
}

}  // namespace
}  // namespace dgap::engine
