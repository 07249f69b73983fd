// coverage_speed [FOLDER]: Eq. 4 for every K, alpha and rho_K over 1,000,000 steps, from a synthetic
// part of 20,000 steps that comes 50 times. Prints seconds and the coverage as JSON; with FOLDER also
// writes the part's columns there, for peers/eq4_vs_numpy.py.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/random.hpp"
#include "calibrator/coverage_surface.hpp"

namespace {

using dgap::calibrator::CoverageSurface;
using dgap::calibrator::Site;
using dgap::schemas::TracePart;

constexpr int kSteps = 20'000, kParts = 50, kSiteSteps = 500, kCap = 256, kBooks = 40;
constexpr double kReached = 0.96;

/// Steps with as many candidates as flat distributions of a language model have: median 64, mean
/// 150, masses as 1 / rank; the quantised ranks are the reference's, disordered in blocks of 16.
TracePart synthetic_part() {
  dgap::base::Random random(1);
  TracePart part;
  part.columns.resize(1);
  part.reference.candidate_first = {0};
  for (int step = 0; step < kSteps; ++step) {
    const double wanted = 64.0 * std::exp(1.4 * random.normal());
    const int count = static_cast<int>(std::fmin(std::fmax(wanted, 1.0), 4096.0));
    double sum = 0.0;
    for (int i = 0; i < count; ++i) sum += 1.0 / (i + 1);
    const auto disorder = static_cast<int>(random.below(16));
    for (int i = 0; i < count; ++i) {
      part.reference.candidate_logits.push_back(
          static_cast<float>(10.0 + std::log(kReached / sum / (i + 1))));
      part.columns[0].candidate_ranks.push_back(i ^ disorder);
      part.columns[0].candidate_logits.push_back(0.0f);
    }
    part.reference.lse.push_back(10.0);
    part.reference.candidate_first.push_back(
        static_cast<std::int64_t>(part.reference.candidate_logits.size()));
    part.step_unit.push_back(step / kSiteSteps);
  }
  return part;
}

template <class T>
void dump(const std::filesystem::path& file, const std::vector<T>& column) {
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(column.data()),
            static_cast<std::streamsize>(column.size() * sizeof(T)));
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  const TracePart part = synthetic_part();
  if (argc > 1) {
    const std::filesystem::path folder = argv[1];
    dump(folder / "first", part.reference.candidate_first);
    dump(folder / "logits", part.reference.candidate_logits);
    dump(folder / "lse", part.reference.lse);
    dump(folder / "ranks", part.columns[0].candidate_ranks);
  }
  std::vector<std::int64_t> steps(kSteps);
  std::iota(steps.begin(), steps.end(), 0);
  std::vector<double> alphas;
  for (int i = 1; i < 20; ++i) alphas.push_back(i / 20.0);

  CoverageSurface surface(alphas, kCap);
  const auto begin = std::chrono::steady_clock::now();
  for (int p = 0; p < kParts; ++p) {
    std::vector<Site> sites;
    for (int first = 0; first < kSteps; first += kSiteSteps) {
      const int book = (p * (kSteps / kSiteSteps) + first / kSiteSteps) % kBooks;
      sites.push_back({std::span(steps).subspan(first, kSiteSteps), book});
    }
    surface.add(part, 0, sites);
  }
  const double pass = seconds_since(begin);
  const auto begin_bounds = std::chrono::steady_clock::now();
  double checked = 0.0;
  for (std::size_t a = 0; a < alphas.size(); ++a) {
    checked += surface.lower(a, 0.9, 1000, 1).front();
  }
  const double bounds = seconds_since(begin_bounds);

  std::printf("{\"steps\": %d, \"candidates\": %lld, \"parts\": %d, \"seconds\": %.4f, "
              "\"seconds_bounds\": %.4f, \"checked\": %.3f, \"cap\": %d, \"coverage\": [",
              kSteps * kParts,
              static_cast<long long>(kParts) * part.reference.candidate_first.back(), kParts, pass,
              bounds, checked, kCap);
  for (std::size_t a = 0; a < alphas.size(); ++a) {
    std::printf("%s[", a == 0 ? "" : ", ");
    const std::vector<double> coverage = surface.coverage(a);
    for (int k = 0; k < kCap; ++k) std::printf("%s%.17g", k == 0 ? "" : ", ", coverage[k]);
    std::printf("]");
  }
  std::printf("]}\n");
}
