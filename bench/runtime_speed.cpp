// Microseconds of one decode step in the runtime, one thread, through its C ABI, beside one
// vectorised pass of sum-exp over the same logits in the same run.
//
//   runtime_speed [WINDOW [FOLDER]]
//
// Bundles with networks of the default sizes and random weights, which cost what trained ones do;
// rows are random, with a tail like a language model's. "keep": the detector lets every row pass;
// "restore": every row is corrected. With FOLDER, the bundles and rows of each vocabulary are left
// there for bench/peers/runtime_vs_torch.py. Prints one JSON object per line.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "base/exp.hpp"
#include "base/files.hpp"
#include "base/half.hpp"
#include "base/multiversion.hpp"
#include "base/random.hpp"
#include "dgap/runtime.hpp"
#include "runtime/features.hpp"
#include "schemas/bundle/bundle.hpp"

namespace {

using namespace dgap;
constexpr int kRows = 8, kRepetitions = 400;

void add_network(schemas::Tensors& tensors, const std::string& prefix, int inputs,
                 base::Random& random) {
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, double scale) {
    schemas::Tensor& tensor = tensors[prefix + name];
    std::int64_t count = 1;
    for (const std::int64_t n : shape) count *= n;
    tensor.shape = std::move(shape);
    for (std::int64_t i = 0; i < count; ++i) {
      tensor.data.push_back(static_cast<float>(scale * random.normal()));
    }
  };
  add(".mean", {inputs}, 0.0), add(".scale", {inputs}, 0.1);
  int in = inputs, layer = 0;
  for (const int out : {64, 32, 1}) {
    const std::string name = "." + std::to_string(layer++);
    add(name + ".weight", {out, in}, 1.0 / std::sqrt(in)), add(name + ".bias", {out}, 0.1);
    in = out;
  }
}

schemas::NetworkInfo mlp(const std::string& tensors) {
  schemas::NetworkInfo info;
  info.architecture = "mlp";
  info.tensors = tensors;
  info.layers = 3;
  return info;
}

/// Precisions "keep" and "restore": the same networks, a threshold that no risk is above, and none.
void write_bundle(const std::filesystem::path& folder, std::int64_t vocabulary, int window) {
  base::Random random(1);
  schemas::Bundle bundle;
  bundle.base_model = {"random", {"LlamaForCausalLM"}, vocabulary,           vocabulary,
                       64,       std::string(64, 'a'), std::string(64, 'b'), "Apache-2.0"};
  bundle.feature_names.assign(runtime::kDetectorFeatures.begin(), runtime::kDetectorFeatures.end());
  add_network(bundle.tensors, "detector", runtime::kDetectorWidth, random);
  add_network(bundle.tensors, "corrector.shape", runtime::kDetectorWidth + runtime::kCandidateWidth,
              random);
  add_network(bundle.tensors, "corrector.mass", runtime::kDetectorWidth, random);
  schemas::PrecisionEntry keep;
  keep.scheme_json = R"({"name": "K1V1"})";
  keep.window = window;
  keep.tau = 1.0;
  keep.threshold_policy = "fixed";
  keep.detector = mlp("detector");
  keep.corrector = mlp("corrector");
  keep.corrector.inputs = {"logits"};
  keep.corrector.mass = true;
  schemas::PrecisionEntry restore = keep;
  restore.mode = "always";
  bundle.precisions = {{"keep", keep}, {"restore", restore}};
  schemas::write_bundle(folder, bundle, R"({"precisions": {}})", "# Random weights\n", "{}");
}

/// Normal, of deviation 2.5, and 200 tokens that stand out up to 14 above the others' middle.
std::vector<float> random_rows(std::int64_t vocabulary) {
  base::Random random(2);
  std::vector<float> rows(static_cast<std::size_t>(kRows * vocabulary));
  for (float& x : rows) x = static_cast<float>(2.5 * random.normal());
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < 200; ++i) {
      const auto id = random.below(static_cast<std::uint64_t>(vocabulary));
      rows[static_cast<std::size_t>(r * vocabulary) + id] =
          14.0f * static_cast<float>(std::sqrt(random.uniform()));
    }
  }
  return rows;
}

/// The pass that ours is measured against: sum of exp(z - top) in single precision, `top` known.
constexpr int kSums = 64;
DGAP_MULTIVERSION float sum_exp(const float* z, std::int64_t n, float top) {
  float sums[kSums] = {};
  for (std::int64_t i = 0; i + kSums <= n; i += kSums) {
    for (int j = 0; j < kSums; ++j) {
      const float d = z[i + j] - top;
      sums[j] += base::exp_normal_f32<true>(d < -87.0f ? -87.0f : d);
    }
  }
  float sum = 0;
  for (const float s : sums) sum += s;
  return sum;
}
DGAP_MULTIVERSION float sum_exp(const std::uint16_t* z, std::int64_t n, float top) {
  float sums[kSums] = {};
  for (std::int64_t i = 0; i + kSums <= n; i += kSums) {
    for (int j = 0; j < kSums; ++j) {
      const float d = base::from_bfloat16(z[i + j]) - top;
      sums[j] += base::exp_normal_f32<true>(d < -87.0f ? -87.0f : d);
    }
  }
  float sum = 0;
  for (const float s : sums) sum += s;
  return sum;
}

struct Times {
  std::vector<double> microseconds;
  template <class F>
  void add(const F& f) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    microseconds.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  double quantile(double q) {
    std::sort(microseconds.begin(), microseconds.end());
    return microseconds[static_cast<std::size_t>(q * static_cast<double>(microseconds.size() - 1))];
  }
};

template <class T>
void measure(const std::filesystem::path& bundle_folder, const std::vector<T>& rows,
             const char* dtype, dgap_dtype type) {
  const Bundle bundle(bundle_folder.string());
  const std::int64_t vocabulary = bundle.vocab_size();
  Restorer keep(bundle, "keep"), restore(bundle, "restore");
  Times kept, restored, passed;
  std::vector<T> row(static_cast<std::size_t>(vocabulary));
  const auto step = [&](Restorer& restorer, Times& times, int verdict) {
    const dgap_logits view{
        row.data(), type, 1, vocabulary, vocabulary * static_cast<std::int64_t>(sizeof(T)),
        sizeof(T)};
    dgap_result result;
    times.add([&] { restorer.restore(view, {&result, 1}); });
    if (result.verdict != verdict) throw std::runtime_error("another verdict than the one timed");
  };
  double sums = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    std::copy_n(rows.begin() + (i % kRows) * vocabulary, vocabulary, row.begin());
    passed.add([&] { sums += sum_exp(row.data(), vocabulary, 14.0f); });
    step(keep, kept, DGAP_KEEP);
    step(restore, restored, DGAP_RESTORE);
  }
  dgap_result result;
  const dgap_logits view{row.data(), type, 1, vocabulary, 0, sizeof(T)};
  keep.score(view, {&result, 1});
  std::printf(
      "{\"vocabulary\": %lld, \"dtype\": \"%s\", \"window\": %d, \"keep_us\": %.1f, "
      "\"keep_p99_us\": %.1f, \"restore_us\": %.1f, \"restore_p99_us\": %.1f, "
      "\"sum_exp_us\": %.1f, \"keep_of_sum_exp\": %.2f}\n",
      static_cast<long long>(vocabulary), dtype, result.window, kept.quantile(0.5),
      kept.quantile(0.99), restored.quantile(0.5), restored.quantile(0.99), passed.quantile(0.5),
      sums == 0 ? 0.0 : kept.quantile(0.5) / passed.quantile(0.5));
  std::fflush(stdout);
}

void run(int window, const std::filesystem::path& folder) {
  for (const std::int64_t vocabulary : {32000, 49152, 128256, 151936}) {
    const auto bundle = folder / std::to_string(vocabulary);
    write_bundle(bundle, vocabulary, window);
    const std::vector<float> rows = random_rows(vocabulary);
    std::vector<std::uint16_t> narrow(rows.size());
    std::transform(rows.begin(), rows.end(), narrow.begin(),
                   [](float x) { return base::to_bfloat16(x); });
    base::write_file_atomically(
        folder / (std::to_string(vocabulary) + ".f32"),
        {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(float)});
    measure(bundle, rows, "f32", DGAP_F32);
    measure(bundle, narrow, "bf16", DGAP_BF16);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool keeps = argc > 2;
    const std::filesystem::path folder =
        keeps ? std::filesystem::path(argv[2])
              : std::filesystem::temp_directory_path() / "dgap-runtime-speed";
    std::filesystem::create_directories(folder);
    run(argc > 1 ? std::stoi(argv[1]) : 64, folder);
    if (!keeps) std::filesystem::remove_all(folder);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
