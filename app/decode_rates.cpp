#include "app/decode_rates.hpp"

#include <algorithm>
#include <chrono>
#include <span>

#include "base/random.hpp"
#include "engine/model/decoder.hpp"

namespace dgap::app {
namespace {

using collector::Rate;
using collector::rows_from;
using Tokens = std::span<const std::int32_t>;

class NullSink : public engine::LogitsSink {
 public:
  void take(std::int64_t, std::int64_t, const float*, const float*) override {}
};

template <class Body>
double seconds_of(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The model with some text, a shorter and a longer prefix of it, and rows to decode after them.
class Probe {
 public:
  explicit Probe(const schemas::Config& config)
      : config_(config),
        decoder_(engine::open_decoder(config.model.path, config.model.format, config.model.device,
                                      {.compute = config.model.compute})),
        longer_(std::clamp(std::ranges::max(config.corpus.context_lengths) - 1, 8, 2048)),
        shorter_(longer_ / 4),
        rows_(std::min(config.decode.block, config.corpus.decode_steps)) {
    base::Random random(config.run.seed, "dry-run");
    for (std::int64_t i = 0; i < longer_ + rows_; ++i) {
      tokens_.push_back(static_cast<std::int32_t>(
          random.below(static_cast<std::uint64_t>(decoder_->model().vocab_size))));
    }
    warm_up();
    exact_ = decoder_->begin(longer_);
    prefill_ = prefill(*exact_);
  }

  Rate exact_prefill() const { return prefill_; }
  Rate quantized_prefill(const schemas::Scheme& scheme) const {
    return prefill(*decoder_->begin_quantized(ready(scheme)));
  }

  Rate decode(const schemas::Scheme& scheme) const {
    const std::int64_t shorter = std::max<std::int64_t>(shorter_, scheme.sink_tokens + 1);
    if (shorter >= longer_) return {};
    return collector::rate_through(rows_from(shorter, rows_), decode_seconds(scheme, shorter),
                                   rows_from(longer_, rows_), decode_seconds(scheme, longer_));
  }

 private:
  /// A scheme whose calibration is still to be made takes about what others take.
  static schemas::Scheme ready(const schemas::Scheme& scheme) {
    return needs_calibration(scheme) ? schemas::preset("uniform-K4V4") : scheme;
  }
  /// Opening a sequence and its first products cost once what later ones do not.
  void warm_up() const {
    NullSink sink;
    const Tokens few = Tokens(tokens_).first(std::min<std::size_t>(tokens_.size(), 64));
    decoder_->begin(std::ssize(few))->append(few, &sink);
  }

  Rate prefill(engine::Sequence& sequence) const {
    const Tokens all(tokens_);
    const double first = seconds_of([&] { sequence.append(all.first(shorter_), nullptr); });
    const double rest =
        seconds_of([&] { sequence.append(all.subspan(shorter_, longer_ - shorter_), nullptr); });
    return collector::rate_through(rows_from(0, shorter_), first, rows_from(0, longer_),
                                   first + rest);
  }

  double decode_seconds(const schemas::Scheme& scheme, std::int64_t context) const {
    NullSink sink;
    const auto fork = exact_->fork(ready(scheme), context);
    const Tokens targets = Tokens(tokens_).subspan(context, rows_);
    return seconds_of([&] {
      config_.decode.mode == "stepwise" ? fork->append_stepwise(targets, &sink)
                                        : fork->append(targets, &sink);
    });
  }

  const schemas::Config& config_;
  std::unique_ptr<engine::Decoder> decoder_;
  std::int64_t longer_, shorter_, rows_;
  std::vector<std::int32_t> tokens_;
  std::unique_ptr<engine::Sequence> exact_;
  Rate prefill_;
};

}  // namespace

DecodeRates measure_decode_rates(const schemas::Config& config) {
  const Probe probe(config);
  DecodeRates rates;
  rates.prefill = probe.exact_prefill();
  rates.reference = probe.decode(schemas::preset("exact"));
  for (const schemas::Scheme& scheme : config.precisions) {
    if (scheme.prefill == schemas::PrefillMode::quantized)
      rates.prefills.push_back(probe.quantized_prefill(scheme));
    rates.decodes.push_back(probe.decode(scheme));
  }
  return rates;
}

}  // namespace dgap::app
