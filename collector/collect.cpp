#include "collector/collect.hpp"

#include <tbb/global_control.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "base/version.hpp"
#include "collector/calibration.hpp"
#include "collector/collect_with.hpp"
#include "collector/memory.hpp"
#include "collector/part_builder.hpp"
#include "collector/run_claim.hpp"
#include "collector/schedule.hpp"
#include "collector/settings.hpp"
#include "engine/formats/open_weights.hpp"
#include "schemas/config/calibrated.hpp"
#include "schemas/results/results.hpp"
#include "schemas/scheme/calibration.hpp"
#include "schemas/trace/trace.hpp"

namespace dgap::collector {
namespace {

namespace fs = std::filesystem;

std::string part_name(std::size_t index) {
  std::string digits = std::to_string(index);
  if (digits.size() < 5) digits.insert(0, 5 - digits.size(), '0');
  return "part-" + digits + ".h5";
}

schemas::TraceHeader header_of(const schemas::Config& config, const engine::Tokenizer& tokenizer,
                               const engine::Decoder& decoder) {
  schemas::TraceHeader header;
  header.producer = "dgap " + std::string(base::version());
  header.producer_commit = base::commit();
  header.run_id = base::sha256_hex(schemas::to_trace_yaml(config));
  header.model_sha256 = decoder.model().model_sha256;
  header.tokenizer_sha256 = tokenizer.sha256();
  header.vocab_size = real_vocabulary(tokenizer.vocab_size(), decoder.model().vocab_size);
  header.hidden_size = decoder.model().hidden_size;
  header.compute = decoder.compute();
  header.cpu_isa = decoder.cpu_isa();
  header.decode_mode = config.decode.mode;
  return header;
}

/// One collection: what is scheduled, what is there already, and the decoding of the rest.
class Collection {
 public:
  Collection(const schemas::Config& config, const engine::Tokenizer& tokenizer,
             const Engine& engine, base::Progress& progress)
      : config_(config),
        tokenizer_(tokenizer),
        engine_(engine),
        progress_(progress),
        traces_(config.run_directory() / "traces") {}

  /// All parts, in order.
  std::vector<std::string> run() {
    at_once_ = engine_.precisions_at_once ? engine_.precisions_at_once(tokenizer_)
                                          : config_.precisions.size();
    make_folder();
    const RunClaim claim(traces_, progress_);
    fs::remove(traces_ / "index.json");  // whatever it says is not finished now
    if (claim.exclusive()) remove_partial_files();
    schedule_ = make_schedule(config_, tokenizer_, progress_);
    calibrate_caches();
    schemes_ = schemas::calibrated_schemes(config_);
    recorded_ = schemas::recorded_schemes(config_);
    std::vector<std::string> names;
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < schedule_.parts.size(); ++i) {
      names.push_back(part_name(i));
      if (!keep(i)) missing.push_back(i);
    }
    announce(missing);
    if (!missing.empty()) decode(missing);
    progress_.end();
    schemas::write_trace_index(traces_, names);
    return names;
  }

 private:
  void make_folder() const {
    std::error_code error;
    fs::create_directories(traces_, error);
    if (error) throw base::IoError(traces_.string() + ": cannot be made: " + error.message());
  }

  void remove_partial_files() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(traces_)) {
      if (entry.path().extension() == ".partial") fs::remove(entry.path());
    }
  }

  /// Whether part i was finished by an earlier process of this run. A damaged one is removed; one
  /// of another configuration or corpus is an error, since it may have taken long to make.
  bool keep(std::size_t i) {
    const fs::path path = traces_ / part_name(i);
    if (!fs::exists(path)) return false;
    schemas::TracePart part;
    try {
      part = schemas::read_trace_part(path);
    } catch (const base::IoError& error) {
      progress_.warn(std::string(error.what()) + "; the part is collected again");
      fs::remove(path);
      return false;
    }
    if (part.config_yaml != schemas::to_trace_yaml(config_)) {
      refuse(path, "was collected with another configuration");
    }
    if (!schemes_agree(part)) refuse(path, "was collected with another calibration of its caches");
    if (!units_agree(part, schedule_.parts[i])) refuse(path, "was collected from other texts");
    if (kept_ && *kept_ != part.header)
      refuse(path, "was collected by another program or on another machine");
    kept_ = part.header;
    return true;
  }

  [[noreturn]] void refuse(const fs::path& path, const std::string& what) const {
    throw base::UsageError(path.string() + ": " + what + "; use another run.name, or delete " +
                           traces_.string());
  }

  bool schemes_agree(const schemas::TracePart& part) const {
    return std::equal(part.precisions.begin(), part.precisions.end(), recorded_.begin(),
                      recorded_.end(), [](const auto& info, const schemas::Scheme& scheme) {
                        return info.scheme_json == schemas::to_json(scheme).dump();
                      });
  }

  bool units_agree(const schemas::TracePart& part, const Part& scheduled) const {
    std::size_t unit = 0;
    for (std::size_t i = scheduled.first_pass; i < scheduled.end_pass; ++i) {
      const Pass& pass = schedule_.passes[i];
      const ScheduledBook& book = schedule_.books[pass.book];
      for (const int context : pass.contexts) {
        if (unit == part.units.size()) return false;
        const schemas::TraceUnit& u = part.units[unit++];
        if (u.book != book.book.name || u.split != book.book.split ||
            u.text_sha256 != text_of(book, pass) || u.start != pass.start || u.context != context ||
            u.steps != pass.steps) {
          return false;
        }
      }
    }
    return unit == part.units.size();
  }

  void announce(const std::vector<std::size_t>& missing) const {
    const std::size_t parts = schedule_.parts.size();
    if (missing.size() < parts) {
      progress_.info(std::to_string(parts - missing.size()) + " of " + std::to_string(parts) +
                     " parts are there already");
    }
    if (at_once_ < config_.precisions.size()) {
      progress_.info("model.memory_budget leaves room for " + std::to_string(at_once_) + " of " +
                     std::to_string(config_.precisions.size()) + " precisions at a time");
    }
    std::int64_t steps = 0;
    for (const std::size_t i : missing) steps += schedule_.parts[i].steps;
    progress_.begin("collect", steps * static_cast<std::int64_t>(config_.precisions.size()),
                    "steps");
  }

  void calibrate_caches() {
    const auto open = [this]() -> const engine::Decoder& { return decoder(); };
    const auto ids = [this](std::size_t book) { return ids_of(book); };
    make_calibrations({config_, schedule_, tokenizer_, open, ids}, progress_);
  }

  const engine::Decoder& decoder() {
    if (decoder_ == nullptr) {
      decoder_ = engine_.open_decoder();
      for (const std::string& note : decoder_->model().notes) progress_.warn(note);
      check_context(config_, decoder_->model().context_length);
    }
    return *decoder_;
  }

  void decode(const std::vector<std::size_t>& missing) {
    const schemas::TraceHeader header = header_of(config_, tokenizer_, decoder());
    check_calibrations(header.model_sha256);
    if (kept_ && *kept_ != header) {
      refuse(traces_ / part_name(0),
             "was collected by another program, with another model or on another machine");
    }
    BlockShape shape =
        block_shape(config_, header.vocab_size, decoder().model().vocab_size, header.hidden_size);
    shape.precisions = at_once_;
    PairedBlock rows(shape);
    for (const std::size_t i : missing) {
      schemas::write_trace_part(traces_ / part_name(i),
                                decode_part(schedule_.parts[i], header, rows));
    }
  }

  void check_calibrations(const std::string& model_sha256) const {
    for (const schemas::Scheme& scheme : schemes_)
      if (needs_calibration(scheme) &&
          schemas::read_calibration(scheme.calibration, scheme.calibration_sha256).model_sha256 !=
              model_sha256)
        throw base::FailedError(scheme.calibration +
                                ": was made with another model; delete it, or name another "
                                "calibration");
  }

  schemas::TracePart decode_part(const Part& part, const schemas::TraceHeader& header,
                                 PairedBlock& rows) {
    PartBuilder builder(header, config_, recorded_, part.steps, rows, progress_);
    for (std::size_t i = part.first_pass; i < part.end_pass; ++i) {
      const Pass& pass = schedule_.passes[i];
      const ScheduledBook& book = schedule_.books[pass.book];
      const std::vector<std::int32_t> tokens =
          pass.kind.empty() ? tokens_of(pass, ids_of(pass.book), tokenizer_.bos()) : pass.tokens;
      builder.begin_pass(book, pass, tokens);
      const TwinDecode twin{decoder(),
                            schemes_,
                            pass.steps,
                            static_cast<int>(rows.shape().rows),
                            config_.decode.mode == "stepwise",
                            at_once_};
      twin.run(tokens, pass.contexts, rows, builder);
    }
    return builder.take();
  }

  /// Of the book that is being decoded; sites of one book follow one another.
  std::span<const std::int32_t> ids_of(std::size_t book) {
    if (!open_book_ || *open_book_ != book) {
      const schemas::CorpusConfig& corpus = config_.corpus;
      const std::string text = corpus::read_book(corpus, schedule_.books[book].book).text;
      if (base::sha256_hex(text) != schedule_.books[book].book.text_sha256) {
        throw base::IoError(schedule_.books[book].book.where() +
                            ": has changed while it was being used");
      }
      ids_ = tokenizer_.encode(text, parses_special(corpus));
      open_book_ = book;
    }
    return ids_;
  }

  const schemas::Config& config_;
  const engine::Tokenizer& tokenizer_;
  const Engine& engine_;
  base::Progress& progress_;
  fs::path traces_;
  std::size_t at_once_ = 0;  // precisions that are decoded side by side
  Schedule schedule_;
  std::unique_ptr<engine::Decoder> decoder_;
  std::vector<schemas::Scheme> schemes_, recorded_;  // to decode with, and as traces have them
  std::optional<schemas::TraceHeader> kept_;  // of the parts that are there
  std::optional<std::size_t> open_book_;
  std::vector<std::int32_t> ids_;
};

}  // namespace

void collect_with(const schemas::Config& config, const Engine& engine, base::Progress& progress) {
  std::optional<tbb::global_control> threads;
  if (config.run.threads > 0) {
    threads.emplace(tbb::global_control::max_allowed_parallelism,
                    static_cast<std::size_t>(config.run.threads));
  }
  const schemas::Stage stage(config, "collect", {});
  if (stage.done()) return progress.info("collect: done already");
  const auto tokenizer = engine.open_tokenizer();
  const fs::path traces = config.run_directory() / "traces";
  std::vector<fs::path> outputs;
  for (const std::string& name : Collection(config, *tokenizer, engine, progress).run()) {
    outputs.push_back(traces / name);
  }
  outputs.push_back(traces / "index.json");
  stage.finish(outputs);
}

void collect(const schemas::Config& config, base::Progress& progress) {
  const schemas::ModelConfig& model = config.model;
  const Engine engine{[&] { return engine::open_tokenizer(model.path, model.format); },
                      [&] {
                        return engine::open_decoder(model.path, model.format, model.device,
                                                    {.compute = model.compute});
                      },
                      [&](const engine::Tokenizer& tokenizer) {
                        const auto weights = engine::open_weights(model.path, model.format);
                        return precisions_at_once(config, tokenizer.vocab_size(),
                                                  weights->parameters());
                      }};
  collect_with(config, engine, progress);
}

}  // namespace dgap::collector
