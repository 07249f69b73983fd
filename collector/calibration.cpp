#include "collector/calibration.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/random.hpp"
#include "base/stop.hpp"
#include "engine/cache/exact_cache.hpp"
#include "engine/cache/kvquant_calibration.hpp"
#include "schemas/config/calibrated.hpp"

namespace dgap::collector {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTokens = 2048, kTokensOfSmall = 512;  // of a window
constexpr std::int64_t kSmallHiddenSize = 1024;

/// Exact keys and values of the windows, as rows over all heads of a layer.
class CalibrationRows {
 public:
  void add(std::unique_ptr<engine::Sequence> window) { windows_.push_back(std::move(window)); }
  const engine::CacheShape& shape() const { return cache(0).shape(); }
  int width() const { return shape().kv_heads * shape().head_dim; }
  /// Without the first `sinks` tokens of every window.
  std::int64_t rows(int sinks) const {
    return std::max<std::int64_t>(windows_.front()->length() - sinks, 0) * std::ssize(windows_);
  }

  enum class Tensor { keys, keys_before_rope, values };
  engine::RowReader reader(int layer, Tensor tensor, int sinks) const {
    return [this, layer, tensor, sinks](std::int64_t from, std::int64_t to, float* out) {
      const std::int64_t each = windows_.front()->length() - sinks;
      for (std::int64_t row = from; row < to; ++row, out += width())
        read_row(layer, tensor, static_cast<std::size_t>(row / each), sinks + row % each, out);
    };
  }

 private:
  const engine::ExactCache& cache(std::size_t window) const {
    return *windows_[window]->exact_cache();
  }
  void read_row(int layer, Tensor tensor, std::size_t window, std::int64_t token,
                float* out) const {
    for (int head = 0; head < shape().kv_heads; ++head, out += shape().head_dim) {
      const engine::ExactCache& from = cache(window);
      if (tensor == Tensor::keys_before_rope)
        from.read_pre_rope_keys(layer, head, token, token + 1, out);
      else if (tensor == Tensor::keys)
        from.read_keys(layer, head, engine::Copy::exact, token, token + 1, out);
      else
        from.read_values(layer, head, engine::Copy::exact, token, token + 1, out);
    }
  }

  std::vector<std::unique_ptr<engine::Sequence>> windows_;  // of one length
};

/// Books of the training split, or all where it has none, that hold `tokens`, or the longest.
std::vector<std::size_t> books_for(const Schedule& schedule, std::int64_t& tokens) {
  const auto of = [&](auto&& fits) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < schedule.books.size(); ++i)
      if (fits(schedule.books[i])) found.push_back(i);
    return found;
  };
  const bool trains = !of([](const auto& b) { return b.book.split == "train"; }).empty();
  const auto usable = [&](const ScheduledBook& b) { return !trains || b.book.split == "train"; };
  std::int64_t longest = 0;
  for (const ScheduledBook& book : schedule.books)
    if (usable(book)) longest = std::max(longest, book.tokens);
  tokens = std::min(tokens, longest);
  return of([&](const ScheduledBook& book) { return usable(book) && book.tokens >= tokens; });
}

CalibrationRows decode_windows(const CalibrationSource& source, base::Progress& progress) {
  const engine::Decoder& decoder = source.decoder();
  const std::int32_t bos = source.tokenizer.bos();
  const engine::ModelInfo& model = decoder.model();
  std::int64_t tokens = calibration_tokens(source.config, model.hidden_size, model.context_length) -
                        (bos >= 0 ? 1 : 0);
  const std::vector<std::size_t> books = books_for(source.schedule, tokens);
  const int count = source.config.calibration.windows;
  progress.begin("calibrate caches", count, "windows");
  base::Random random(source.config.run.seed, "calibration");
  std::vector<std::pair<std::size_t, std::int64_t>> sites;  // book by book, to tokenise each once
  for (int w = 0; w < count; ++w) {
    const std::size_t book = books[static_cast<std::size_t>(w) % books.size()];
    const std::int64_t room = source.schedule.books[book].tokens - tokens + 1;
    sites.emplace_back(book, random.below(static_cast<std::uint64_t>(room)));
  }
  std::sort(sites.begin(), sites.end());
  CalibrationRows rows;
  for (const auto& [book, start] : sites) {
    base::throw_if_stop_requested();
    std::vector<std::int32_t> window;
    if (bos >= 0) window.push_back(bos);
    const auto text =
        source.ids(book).subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(tokens));
    window.insert(window.end(), text.begin(), text.end());
    auto sequence = decoder.begin(std::ssize(window), true);
    sequence->append(window, nullptr);
    if (sequence->exact_cache() == nullptr)
      throw base::FailedError("this device does not give keys and values to calibrate with");
    rows.add(std::move(sequence));
    progress.advance(1);
  }
  progress.end();
  return rows;
}

schemas::Calibration calibrate(const schemas::Scheme& scheme, const CalibrationRows& rows,
                               const std::string& model_sha256) {
  using Tensor = CalibrationRows::Tensor;
  const int layers = rows.shape().layers, sinks = scheme.sink_tokens;
  schemas::Calibration made;
  made.model_sha256 = model_sha256;
  made.tokens = rows.rows(sinks);
  for (int layer = 0; layer < layers; ++layer) {
    base::throw_if_stop_requested();
    const schemas::HeadScheme heads = head_scheme(scheme, layers, layer, 0);
    const auto tensor = [&](const schemas::TensorScheme& own, Tensor which) {
      if (own.quantizer != schemas::Quantizer::kvquant) return schemas::TensorCalibration{};
      return engine::calibrate_kvquant(own, rows.width(), made.tokens,
                                       rows.reader(layer, which, sinks));
    };
    made.layers.push_back(
        {tensor(heads.key, scheme.key_before_rope ? Tensor::keys_before_rope : Tensor::keys),
         tensor(heads.value, Tensor::values)});
  }
  return made;
}

}  // namespace

std::int64_t calibration_tokens(const schemas::Config& config, std::int64_t hidden_size,
                                std::int64_t context_length) {
  const std::int64_t fitting = hidden_size < kSmallHiddenSize ? kTokensOfSmall : kTokens;
  const std::int64_t wanted = config.calibration.tokens > 0 ? config.calibration.tokens : fitting;
  return std::min(wanted, context_length);
}

void make_calibrations(const CalibrationSource& source, base::Progress& progress) {
  std::unique_ptr<CalibrationRows> rows;
  for (const schemas::Scheme& scheme : source.config.precisions) {
    if (!needs_calibration(scheme)) continue;
    const fs::path file = schemas::calibration_file(source.config, scheme);
    if (fs::exists(file) || !scheme.calibration.empty()) {
      schemas::read_calibration(file, scheme.calibration_sha256);
      continue;
    }
    if (rows == nullptr) rows = std::make_unique<CalibrationRows>(decode_windows(source, progress));
    fs::create_directories(file.parent_path());
    base::write_file_atomically(file, schemas::encode_calibration(calibrate(
                                          scheme, *rows, source.decoder().model().model_sha256)));
  }
}

}  // namespace dgap::collector
