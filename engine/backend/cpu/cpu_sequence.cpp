#include "engine/backend/cpu/cpu_sequence.hpp"

#include <algorithm>
#include <atomic>
#include <optional>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include "base/error.hpp"
#include "base/stop.hpp"
#include "engine/backend/cpu/elementwise.hpp"

namespace dgap::engine {
namespace {

constexpr std::int64_t kBlockRows = 512;         // rows that pass through a layer together
constexpr std::int64_t kLogitsBytes = 64 << 20;  // of the rows of logits held at a time
constexpr std::int64_t kRowsPerTask = 16;

/// Rows of logits computed together: enough of them for every weight that is read.
std::int64_t logits_rows(std::int64_t vocab) {
  const std::int64_t fit = kLogitsBytes / static_cast<std::int64_t>(sizeof(float)) / vocab;
  return std::clamp<std::int64_t>(fit / kRowStep * kRowStep, kRowStep, kBlockRows);
}

/// Calls task(row) for all rows, in parallel.
template <class Task>
void for_each_row(std::int64_t rows, const Task& task) {
  oneapi::tbb::parallel_for(oneapi::tbb::blocked_range<std::int64_t>(0, rows, kRowsPerTask),
                            [&](const auto& range) {
                              for (std::int64_t r = range.begin(); r < range.end(); ++r) task(r);
                            });
}

float* scratch_row(std::int64_t size) {
  thread_local Buffer<float> buffer;
  buffer.reserve(size);
  return buffer.data();
}

/// The forward pass of one block of rows through a model.
class Pass {
 public:
  Pass(const CpuModel& model, std::int64_t rows, CpuWorkspace& workspace)
      : model_(model), rows_(rows), ws_(workspace) {
    const HyperParameters& p = model.parameters;
    const std::int64_t padded = round_up<std::int64_t>(rows, kRowStep);
    ws_.residual.reserve(padded * p.hidden_size);
    ws_.queries.reserve(padded * model.query_width());
    ws_.keys.reserve(padded * model.kv_width());
    ws_.values.reserve(padded * model.kv_width());
    ws_.normed.reserve(rows);
    ws_.attended.reserve(rows);
    ws_.ffn.reserve(rows);
  }

  void embed(std::span<const std::int32_t> tokens) {
    for_each_row(rows_, [&](std::int64_t r) {
      model_.embedding().row(tokens[static_cast<std::size_t>(r)],
                             ws_.residual.data() + r * model_.parameters.hidden_size);
    });
  }

  void project_queries_keys_values(const CpuModel::Layer& layer) {
    norm(layer.attention_norm);
    const PanelMatrix& matrix = layer.query_key_value;
    for_each_panel(matrix, rows_, [&](std::int64_t panel, std::int64_t first, std::int64_t rows) {
      const std::int64_t output = panel * kPanel;
      float* to = ws_.queries.data();
      std::int64_t begin = 0, width = model_.query_width();
      if (output >= model_.value_output())
        to = ws_.values.data(), begin = model_.value_output(), width = model_.kv_width();
      else if (output >= model_.key_output())
        to = ws_.keys.data(), begin = model_.key_output(), width = model_.kv_width();
      const std::int64_t column = output - begin;
      to += first * width + column;
      multiply_panel(matrix, panel, ws_.normed, first, rows, width - column, to, width, false);
      if (!layer.query_key_value_bias.empty())
        add_bias(rows, std::min<std::int64_t>(kPanel, width - column),
                 layer.query_key_value_bias.data() + output, to, width);
    });
  }

  void project_attention(const CpuModel::Layer& layer) {
    multiply(layer.output, ws_.attended, rows_, ws_.residual.data(), true);
    if (layer.output_bias.empty()) return;
    const std::int64_t hidden = model_.parameters.hidden_size;
    for_each_row(rows_, [&](std::int64_t r) {
      add_bias(1, hidden, layer.output_bias.data(), ws_.residual.data() + r * hidden, hidden);
    });
  }

  void feed_forward(const CpuModel::Layer& layer) {
    norm(layer.ffn_norm);
    for_each_panel(
        layer.gate_up, rows_, [&](std::int64_t panel, std::int64_t first, std::int64_t rows) {
          constexpr std::int64_t kRows = 64, kUnits = kPanel / 2;
          alignas(64) float c[kRows * kPanel];
          for (std::int64_t r = 0; r < rows; r += kRows) {
            const std::int64_t some = std::min(kRows, rows - r);
            layer.gate_up.multiply(panel, ws_.normed, first + r, some, c, kPanel, false);
            swiglu(some, c);
            ws_.ffn.store_rows(first + r, some, panel * kUnits,
                               std::min(kUnits, ws_.ffn.width() - panel * kUnits), c, kPanel);
          }
        });
    multiply(layer.down, ws_.ffn, rows_, ws_.residual.data(), true);
  }

 private:
  void norm(const std::vector<float>& weight) {
    const std::int64_t hidden = model_.parameters.hidden_size;
    const auto epsilon = static_cast<float>(model_.parameters.rms_epsilon);
    for_each_row(rows_, [&](std::int64_t r) {
      float* row = scratch_row(hidden);
      rms_norm(hidden, ws_.residual.data() + r * hidden, weight.data(), epsilon, row);
      ws_.normed.store(r, 0, hidden, row);
    });
  }

  const CpuModel& model_;
  std::int64_t rows_;
  CpuWorkspace& ws_;
};

}  // namespace

/// A workspace of the decoder's, for the time of a call.
class CpuDecoder::Lease {
 public:
  explicit Lease(const CpuDecoder& decoder) : decoder_(decoder) {
    const std::lock_guard lock(decoder.mutex_);
    if (!decoder.workspaces_.empty()) {
      workspace_ = std::move(decoder.workspaces_.back());
      decoder.workspaces_.pop_back();
      return;
    }
    const HyperParameters& p = decoder.model_.parameters;
    const Compute compute = decoder.model_.compute;
    workspace_ = std::make_unique<CpuWorkspace>();
    workspace_->normed = Activations(compute, p.hidden_size);
    workspace_->attended = Activations(compute, decoder.model_.query_width());
    workspace_->ffn = Activations(compute, p.intermediate_size);
  }
  ~Lease() {
    const std::lock_guard lock(decoder_.mutex_);
    decoder_.workspaces_.push_back(std::move(workspace_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  CpuWorkspace& operator*() { return *workspace_; }

 private:
  const CpuDecoder& decoder_;
  std::unique_ptr<CpuWorkspace> workspace_;
};

CpuSequence::CpuSequence(const CpuDecoder& decoder, std::unique_ptr<ExactCache> cache)
    : decoder_(decoder), exact_(cache.get()) {
  cache_ = std::move(cache);
}

CpuSequence::CpuSequence(const CpuDecoder& decoder, std::unique_ptr<KvCache> quantized)
    : decoder_(decoder), cache_(std::move(quantized)) {}

void CpuSequence::append(std::span<const std::int32_t> tokens, LogitsSink* sink,
                         std::int64_t first_logits_row) {
  append_blocks(tokens, kBlockRows, sink, first_logits_row);
}

void CpuSequence::append_stepwise(std::span<const std::int32_t> tokens, LogitsSink* sink) {
  append_blocks(tokens, 1, sink, 0);
}

void CpuSequence::append_blocks(std::span<const std::int32_t> tokens, std::int64_t block,
                                LogitsSink* sink, std::int64_t first_logits_row) {
  check(tokens);
  CpuDecoder::Lease workspace(decoder_);
  const std::int64_t count = std::ssize(tokens);
  const std::int64_t logits_block = logits_rows(decoder_.model_.parameters.vocab_size);
  for (std::int64_t begin = 0, rows = 0; begin < count; begin += rows) {
    base::throw_if_stop_requested();
    rows = std::min({block, count - begin, cache_->block_limit()});
    const std::int64_t position = length();
    forward(tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)),
            *workspace);
    if (sink == nullptr) continue;
    for (std::int64_t r = std::max(first_logits_row - begin, std::int64_t{0}); r < rows;
         r += logits_block)
      logits(r, std::min(logits_block, rows - r), position + r, begin + r - first_logits_row, *sink,
             *workspace);
  }
}

void CpuSequence::check(std::span<const std::int32_t> tokens) const {
  const ModelInfo& model = decoder_.info_;
  if (length() + std::ssize(tokens) > model.context_length)
    throw base::UsageError(model.name + ": " + std::to_string(tokens.size()) + " tokens after " +
                           std::to_string(length()) + " do not fit the model's context of " +
                           std::to_string(model.context_length));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= model.vocab_size)
      throw base::UsageError(model.name + ": token " + std::to_string(i) + " of the text has id " +
                             std::to_string(tokens[i]) + "; the vocabulary has ids 0 to " +
                             std::to_string(model.vocab_size - 1));
  }
}

void CpuSequence::forward(std::span<const std::int32_t> tokens, CpuWorkspace& workspace) {
  const std::int64_t rows = std::ssize(tokens), first = length();
  const CpuModel& model = decoder_.model_;
  const Attention::Plan whole(decoder_.attention_, *cache_, first, rows);
  std::optional<Attention::Plan> windowed;
  if (model.parameters.sliding_window > 0)
    windowed.emplace(decoder_.attention_, *cache_, first, rows, model.parameters.sliding_window);
  const std::shared_ptr<const RopeTable> rope = decoder_.rope(first + rows);
  Pass pass(model, rows, workspace);
  pass.embed(tokens);
  for (int l = 0; l < model.parameters.layers; ++l) {
    const CpuModel::Layer& layer = model.layers[static_cast<std::size_t>(l)];
    pass.project_queries_keys_values(layer);
    cache_->append(l, rows, workspace.keys.data(), workspace.values.data());
    const auto& plan = model.parameters.window(l) > 0 ? *windowed : whole;
    decoder_.attention_.run(plan, *cache_, *rope, l, workspace.queries.data(), workspace.attended,
                            workspace.attention);
    pass.project_attention(layer);
    pass.feed_forward(layer);
  }
}

void CpuSequence::logits(std::int64_t first, std::int64_t rows, std::int64_t position,
                         std::int64_t sink_row, LogitsSink& sink, CpuWorkspace& workspace) const {
  const CpuModel& model = decoder_.model_;
  const HyperParameters& p = model.parameters;
  const std::int64_t hidden = p.hidden_size, vocab = p.vocab_size;
  workspace.hidden.reserve(rows * hidden);
  workspace.logits.reserve(round_up<std::int64_t>(rows, kRowStep) * vocab);
  for_each_row(rows, [&](std::int64_t r) {
    float* row = workspace.hidden.data() + r * hidden;
    rms_norm(hidden, workspace.residual.data() + (first + r) * hidden, model.output_norm.data(),
             static_cast<float>(p.rms_epsilon), row);
    workspace.normed.store(r, 0, hidden, row);
  });
  float* out = workspace.logits.data();
  std::atomic<bool> finite{true};
  for_each_panel(
      model.output_matrix, rows, [&](std::int64_t panel, std::int64_t begin, std::int64_t count) {
        float* block = out + begin * vocab + panel * kPanel;
        const std::int64_t columns = std::min<std::int64_t>(kPanel, vocab - panel * kPanel);
        multiply_panel(model.output_matrix, panel, workspace.normed, begin, count, columns, block,
                       vocab, false);
        if (!all_finite(count, columns, block, vocab))
          finite.store(false, std::memory_order_relaxed);
      });
  if (!finite.load()) {
    std::int64_t row = 0;
    while (all_finite(1, vocab, out + row * vocab, vocab)) ++row;
    throw base::FailedError(p.name + ": the logits at position " + std::to_string(position + row) +
                            " are not finite (compute " + decoder_.compute() + ")");
  }
  sink.take(sink_row, rows, out, workspace.hidden.data());
}

std::unique_ptr<Sequence> CpuSequence::fork(const schemas::Scheme& scheme,
                                            std::int64_t length) const {
  if (exact_ == nullptr) throw base::UsageError("only an exact sequence can be forked");
  const ModelInfo& model = decoder_.info_;
  schemas::validate(scheme, {model.head_dim, model.layers, model.kv_heads});
  if (length < 0 || length > this->length())
    throw base::UsageError("precision " + scheme.name + ": a fork after " + std::to_string(length) +
                           " tokens of an exact sequence of " + std::to_string(this->length()));
  if (scheme.key_before_rope && !exact_->keeps_pre_rope())
    throw base::UsageError("precision " + scheme.name +
                           ": key_before_rope needs an exact sequence that keeps keys before RoPE");
  return std::make_unique<CpuSequence>(decoder_, make_quantized_cache(scheme, *exact_, length));
}

}  // namespace dgap::engine
