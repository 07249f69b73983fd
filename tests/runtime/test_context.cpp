#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "base/random.hpp"
#include "runtime/context_features.hpp"
#include "tests/runtime/toy_bundle.hpp"

namespace dgap::runtime {
namespace {

using Ids = std::vector<std::int32_t>;
using Features = std::map<std::string, double, std::less<>>;

constexpr std::int64_t kVocabulary = 400;

/// docs/features.md, word for word, over the whole text at once.
class Reference {
 public:
  Reference(const Ids& text, const Ids& candidates) : x_(text), n_(static_cast<int>(text.size())) {
    for (const std::int32_t id : candidates) all_[id] = raw(id);
  }

  Features features(std::int32_t id) {
    Features f = all_.at(id);
    double fuzzy = 0, scale = 0, key1 = 0, key2 = 0;
    for (const auto& [other, g] : all_) {
      fuzzy = std::max(fuzzy, g.at("fuzzy")), scale = std::max(scale, g.at("key"));
      key1 = std::max(key1, g.at("key1")), key2 = std::max(key2, g.at("key2"));
    }
    f["fuzzy_gap"] = f["fuzzy"] - fuzzy;
    const double unit = scale > 0 ? 1 / scale : 0;
    f["key1_gap"] = (f["key1"] - key1) * unit, f["key2_gap"] = (f["key2"] - key2) * unit;
    for (const char* key : {"key", "key1", "key2", "key3"}) f[key] *= unit;
    f["key_scale"] = std::log1p(scale);
    for (const int gate : {0, 1}) {
      const std::string name = gate == 0 ? "fresh" : "fresh1";
      double freshest = 0;
      for (const auto& [other, g] : all_) freshest = std::max(freshest, g.at(name));
      f[name + "_gap"] = (f[name] - freshest) * unit;
      f[name] *= unit;
      f[gate == 0 ? "first" : "first1"] = freshest > 0 && first(gate, 0.9 * freshest) == id;
    }
    return f;
  }

 private:
  int suffix(int i) const {
    int length = 0;
    while (length < 8 && length <= i && x_[i - length] == x_[n_ - 1 - length]) ++length;
    return length;
  }
  double fuzzy(int i) const {
    double sum = 0;
    for (int n = 0; n < 8 && n <= i; ++n) {
      if (x_[i - n] == x_[n_ - 1 - n]) sum += std::pow(0.8, n);
    }
    return sum;
  }
  double key(int i) const {
    if (i >= n_ - 32) return 0;
    double sum = 0;
    for (int j = std::max(0, i - 11); j <= i; ++j) {
      if (std::find(x_.end() - 32, x_.end(), x_[j]) == x_.end()) continue;
      sum += std::log((n_ + 1.0) / static_cast<double>(std::count(x_.begin(), x_.end(), x_[j])));
    }
    return sum;
  }
  /// Three tokens in a row around the follower of i come again, that one among the last 32.
  bool copied(int i) const {
    for (int j = std::max(i + 2, n_ - 32); j < n_; ++j) {
      const auto equal = [&](int m) {
        return i + 1 + m >= 0 && j + m < n_ && x_[i + 1 + m] == x_[j + m];
      };
      if (equal(0) &&
          ((equal(-2) && equal(-1)) || (equal(-1) && equal(1)) || (equal(1) && equal(2))))
        return true;
    }
    return false;
  }
  /// The candidate of the first place that is not copied, of a key score of at least `least`.
  std::int32_t first(int gate, double least) const {
    for (int i = 0; i + 1 < n_; ++i) {
      if (all_.contains(x_[i + 1]) && suffix(i) >= gate && key(i) >= least - 1e-5 && !copied(i))
        return x_[i + 1];
    }
    return -1;
  }
  Features raw(std::int32_t id) const {
    Features f = {{"fuzzy", 0}, {"key", 0},   {"key1", 0},  {"key2", 0},
                  {"key3", 0},  {"fresh", 0}, {"fresh1", 0}};
    int last = -1, bigram = -1, longest = 0, best = 0;
    std::map<int, int> matches, totals;
    for (int i = 0; i + 1 < n_; ++i) {
      const int length = suffix(i);
      for (const int n : {1, 2, 3, 5}) totals[n] += length >= n;
      best = std::max(best, length);
      if (x_[i + 1] != id) continue;
      for (const int n : {1, 2, 3, 5}) matches[n] += length >= n;
      longest = std::max(longest, length);
      if (length > 0) bigram = i + 1;
      f["fuzzy"] = std::max(f["fuzzy"], fuzzy(i));
      f["key"] = std::max(f["key"], key(i));
      if (!copied(i)) f["fresh"] = std::max(f["fresh"], key(i));
      if (!copied(i) && length > 0) f["fresh1"] = std::max(f["fresh1"], key(i));
      for (const int n : {1, 2, 3}) {
        double& gated = f["key" + std::to_string(n)];
        if (length >= n) gated = std::max(gated, key(i));
      }
    }
    for (int i = 0; i < n_; ++i) last = x_[i] == id ? i : last;
    f["log_count"] = std::log1p(static_cast<double>(std::count(x_.begin(), x_.end(), id)));
    f["recency"] = last < 0 ? -12 : -std::log(n_ - last);
    f["bigram_recency"] = bigram < 0 ? -12 : -std::log(n_ - bigram);
    for (const int n : {1, 2, 3, 5}) {
      f["match" + std::to_string(n)] = std::log1p(matches[n]);
      f["frequency" + std::to_string(n)] = matches[n] / std::max(1.0, double{1.0 * totals[n]});
      if (n < 5) f["evidence" + std::to_string(n)] = std::log1p(totals[n]);
    }
    f["suffix"] = longest / 8.0, f["suffix_gap"] = (longest - best) / 8.0;
    return f;
  }

  Ids x_;
  int n_;
  std::map<std::int32_t, Features> all_;
};

Ids candidates_of(const Ids& text, base::Random& random) {
  Ids ids(text.begin(), text.begin() + std::min<std::size_t>(text.size(), 40));
  for (int i = 0; i < 5; ++i) ids.push_back(static_cast<std::int32_t>(random.below(kVocabulary)));
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  random.shuffle(std::span(ids));
  return ids;
}

std::vector<float> features_of(const Context& context, const Ids& candidates) {
  std::vector<float> out(candidates.size() * kContextWidth);
  ContextFeatures(static_cast<int>(candidates.size()))
      .compute(context, candidates, out.data(), kContextWidth);
  return out;
}

TEST(ContextFeatures, AreWhatTheDocumentSays) {
  base::Random random(3);
  for (const int length : {0, 1, 2, 9, 31, 32, 33, 60, 300}) {
    const Ids text = test::toy_text(kVocabulary, length, 5);
    Context context(kVocabulary);
    context.begin(text);
    const Ids candidates = candidates_of(text, random);
    const std::vector<float> found = features_of(context, candidates);
    Reference reference(text, candidates);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Features expected = reference.features(candidates[i]);
      ASSERT_EQ(expected.size(), kContextFeatures.size());
      for (int f = 0; f < kContextWidth; ++f) {
        const auto name = kContextFeatures[f];
        EXPECT_NEAR(found[i * kContextWidth + f], expected.find(name)->second, 2e-6)
            << name << ", " << length << " tokens";
      }
    }
  }
}

/// However a text came about, its features have the same bits.
TEST(ContextFeatures, DependOnTheTextAlone) {
  base::Random random(4);
  Context grown(kVocabulary);
  Ids text;
  for (int round = 0; round < 60; ++round) {
    const Ids more = test::toy_text(kVocabulary, static_cast<int>(random.below(40)), 100 + round);
    grown.accept(more);
    text.insert(text.end(), more.begin(), more.end());
    const auto back =
        static_cast<std::int64_t>(random.below(std::min<std::size_t>(30, text.size() + 1)));
    grown.roll_back(back);
    text.resize(text.size() - static_cast<std::size_t>(back));
    Context fresh(kVocabulary, 4096);
    fresh.begin(text);
    ASSERT_EQ(grown.length(), fresh.length());
    const Ids candidates = candidates_of(text, random);
    EXPECT_EQ(features_of(grown, candidates), features_of(fresh, candidates));
  }
  ASSERT_GT(text.size(), 100u);
  const Ids other = test::toy_text(kVocabulary, 50, 9);
  grown.begin(other);  // nothing of the old text is left
  Context fresh(kVocabulary);
  fresh.begin(other);
  EXPECT_EQ(features_of(grown, candidates_of(other, random)).size() % kContextWidth, 0u);
  for (std::int32_t id = 0; id < kVocabulary; ++id) {
    EXPECT_EQ(grown.count(id), fresh.count(id));
    EXPECT_EQ(grown.last(id), fresh.last(id));
  }
}

/// A step looks back at most so far: older evidence no longer counts, and time has a bound.
TEST(ContextFeatures, LookBackABoundedNumberOfPlaces) {
  Context context(kVocabulary);
  context.accept(Ids{1, 2});  // "1 2" once, long ago
  const Ids ones(kLongestWalk + 1, 1);
  context.accept(ones);
  const std::vector<float> found = features_of(context, {2, 1});
  const auto at = [&](int candidate, std::string_view name) {
    const auto f = std::find(kContextFeatures.begin(), kContextFeatures.end(), name);
    return found[candidate * kContextWidth + (f - kContextFeatures.begin())];
  };
  EXPECT_EQ(at(0, "match1"), 0.0f);
  EXPECT_EQ(at(0, "recency"), -std::log(static_cast<float>(kLongestWalk + 2)));
  EXPECT_NEAR(at(1, "match1"), std::log1p(kLongestWalk), 1e-6);
  EXPECT_EQ(at(1, "frequency1"), 1.0f);
}

TEST(Context, RefusesWhatItCannotHold) {
  Context context(10);
  context.begin(Ids{1, 2, 3});
  EXPECT_THROW(context.accept(Ids{4, 10}), base::UsageError);
  EXPECT_THROW(context.accept(Ids{-1}), base::UsageError);
  EXPECT_THROW(context.begin(Ids{4, 10}), base::UsageError);
  EXPECT_THROW(context.roll_back(4), base::UsageError);
  EXPECT_THROW(context.roll_back(-1), base::UsageError);
  EXPECT_EQ(context.length(), 3);
  EXPECT_EQ(context.count(4), 0);
  context.roll_back(3);
  EXPECT_EQ(context.length(), 0);
  EXPECT_EQ(context.last(1), -1);
  EXPECT_THROW(Context(10, std::int64_t{1} << 31), base::UsageError);
}

}  // namespace
}  // namespace dgap::runtime
