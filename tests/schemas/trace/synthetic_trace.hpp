#pragma once
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/half.hpp"
#include "base/random.hpp"
#include "schemas/trace/trace.hpp"
#include "tests/testing/temporary_folder.hpp"

/// Small traces whose columns are worked out the slow way, and a folder to keep them in.
namespace dgap::testing {

/// Quickly, that is without syncing.
inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

struct SyntheticTrace {
  std::int32_t vocab = 50, hidden = 6, top = 7;
  std::vector<std::string> precisions = {"K2V2", "K1V1-R32"};  // not in alphabetical order
  std::vector<std::string> splits = {"train", "train", "test"};
  double alpha_max = 0.95;
  bool full = false, with_hidden = false;
  std::string config = "version: 1\nname: \"é\"\n";
  std::uint64_t seed = 1;
};

inline std::vector<std::int32_t> order_of(const std::vector<float>& logits) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b]; });
  return order;
}

inline double lse_of(const std::vector<float>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z) - largest);
  return largest + std::log(sum);
}

class SyntheticBuilder {
 public:
  explicit SyntheticBuilder(const SyntheticTrace& wish)
      : wish_(wish), random_(wish.seed, "synthetic") {}

  schemas::TracePart build() {
    part_.header = {"dgap 0.1.0", "commit",     "run", "model", "tokenizer",
                    wish_.vocab,  wish_.hidden, "f32", "avx2",  "blocked"};
    part_.config_yaml = wish_.config;
    part_.top = wish_.top;
    part_.reference.candidate_first = {0};
    for (std::size_t i = 0; i < wish_.precisions.size(); ++i) {
      const double bits = 1.25 + static_cast<double>(i);
      part_.precisions.push_back(
          {wish_.precisions[i], R"({"name": "é"})", bits, bits + 0.5, bits + 1.0, bits + 2.0});
    }
    part_.columns.resize(wish_.precisions.size());
    for (std::size_t i = 0; i < wish_.splits.size(); ++i) add_unit(static_cast<std::int32_t>(i));
    return std::move(part_);
  }

 private:
  std::int32_t token() { return static_cast<std::int32_t>(random_.below(wish_.vocab)); }

  void add_unit(std::int32_t index) {
    schemas::TraceUnit unit;
    unit.book = "Brontë " + std::to_string(index), unit.source = "pg19", unit.domain = "";
    unit.split = wish_.splits[index];
    unit.context = 4 + index, unit.start = 100 * index, unit.steps = 5 + index;
    unit.first_step = part_.steps();
    unit.first_token = static_cast<std::int64_t>(part_.tokens.size());
    unit.text_sha256 = std::string(64, 'a');
    for (int i = 0; i < unit.context + unit.steps; ++i) part_.tokens.push_back(token());
    part_.units.push_back(unit);
    for (int t = 0; t < unit.steps; ++t) {
      part_.step_unit.push_back(index);
      part_.step_position.push_back(unit.context - 1 + t);
      part_.step_target.push_back(part_.tokens[unit.first_token + unit.context + t]);
      add_step(part_.step_target.back());
    }
  }

  void add_step(std::int32_t target) {
    std::vector<float> logits(wish_.vocab);
    // Multiples of 1/4: many are equal, so that ties matter.
    for (float& z : logits) z = static_cast<float>(std::round(random_.normal() * 10.0) / 4.0);
    const std::vector<std::int32_t> order = order_of(logits);
    const double lse = lse_of(logits);
    std::vector<double> before(logits.size());
    double mass = 0.0, entropy = 0.0;
    schemas::ReferenceColumns& r = part_.reference;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::int32_t id = order[i];
      before[id] = mass;
      if (mass < wish_.alpha_max)
        r.candidate_ids.push_back(id), r.candidate_logits.push_back(logits[id]);
      if (static_cast<std::int32_t>(i) < wish_.top)
        r.top_ids.push_back(id), r.top_logits.push_back(logits[id]);
      const double p = std::exp(static_cast<double>(logits[id]) - lse);
      mass += p, entropy -= p * std::log(p);
    }
    r.lse.push_back(lse), r.entropy.push_back(static_cast<float>(entropy)),
        r.target_logit.push_back(logits[target]);
    const std::int64_t first = r.candidate_first.back();
    r.candidate_first.push_back(static_cast<std::int64_t>(r.candidate_ids.size()));
    if (wish_.full) r.logits.insert(r.logits.end(), logits.begin(), logits.end());
    for (schemas::PrecisionColumns& c : part_.columns)
      add_precision(c, logits, before, lse, first, target);
  }

  void add_precision(schemas::PrecisionColumns& c, const std::vector<float>& reference,
                     const std::vector<double>& before, double reference_lse, std::int64_t first,
                     std::int32_t target) {
    std::vector<float> logits = reference;
    for (float& z : logits) z += static_cast<float>(std::round(random_.normal() * 2.0) / 4.0);
    const std::vector<std::int32_t> order = order_of(logits);
    const double lse = lse_of(logits);
    std::vector<std::int32_t> rank(logits.size());
    double kl = 0.0, entropy = 0.0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::int32_t id = order[i];
      rank[id] = static_cast<std::int32_t>(i);
      const double p = std::exp(static_cast<double>(reference[id]) - reference_lse);
      const double q = std::exp(static_cast<double>(logits[id]) - lse);
      kl += p * std::log(p / q), entropy -= q * std::log(q);
      if (static_cast<std::int32_t>(i) >= wish_.top) continue;
      c.top_ids.push_back(id), c.top_logits.push_back(logits[id]);
      c.top_reference_logits.push_back(reference[id]),
          c.top_reference_mass_before.push_back(before[id]);
    }
    c.lse.push_back(lse), c.entropy.push_back(static_cast<float>(entropy)),
        c.kl.push_back(static_cast<float>(kl));
    c.target_logit.push_back(logits[target]);
    const std::vector<std::int32_t>& ids = part_.reference.candidate_ids;
    for (std::size_t i = first; i < ids.size(); ++i) {
      c.candidate_ranks.push_back(rank[ids[i]]), c.candidate_logits.push_back(logits[ids[i]]);
    }
    if (wish_.full) c.logits.insert(c.logits.end(), logits.begin(), logits.end());
    for (int i = 0; wish_.with_hidden && i < wish_.hidden; ++i) {
      c.hidden.push_back(base::to_half(static_cast<float>(random_.normal())));
    }
  }

  SyntheticTrace wish_;
  base::Random random_;
  schemas::TracePart part_;
};

inline schemas::TracePart make_synthetic(const SyntheticTrace& wish = {}) {
  return SyntheticBuilder(wish).build();
}

}  // namespace dgap::testing
