#include "engine/backend/cpu/attention.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include "base/exp.hpp"
#include "base/multiversion.hpp"

namespace dgap::engine {
namespace {

constexpr std::int64_t kRunTiles = 8;       // tiles of a run, whose states are summed apart
constexpr std::int64_t kBlocksPerTask = 8;  // query blocks that pass over a run together
constexpr std::int64_t kFewBlocks = 2;      // up to which a run's tiles serve one task only
constexpr float kNothing = -1e30f;  // top of no score; finite, so that differences are numbers
constexpr float kLog2 = 0.693147181f;

template <class T, int kUse>
T* scratch(std::int64_t size) {
  thread_local Buffer<T> buffer;
  buffer.reserve(size);
  return buffer.data();
}
float* row_scratch(std::int64_t size) { return scratch<float, 0>(size); }
float* state_scratch(std::int64_t size) { return scratch<float, 1>(size); }
char* tile_scratch(std::int64_t size) { return scratch<char, 2>(size); }

/// Slots of a tile that each lane sees.
DGAP_MULTIVERSION void clip(const std::int32_t* low, const std::int32_t* high, std::int32_t base,
                            std::int32_t* begin, std::int32_t* end) {
  for (int lane = 0; lane < kPanel; ++lane) {
    begin[lane] = std::clamp(low[lane] - base, 0, kAttentionTile);
    end[lane] = std::clamp(high[lane] - base, 0, kAttentionTile);
  }
}

/// Adds what a run of tiles sums up to.
DGAP_MULTIVERSION void add_state(std::int64_t floats, const AttentionState& part,
                                 const AttentionState& total) {
  alignas(64) float part_factor[kPanel], total_factor[kPanel];
  for (int lane = 0; lane < kPanel; ++lane) {
    const float p = part.maximum[lane], t = total.maximum[lane];
    const float top = p > t ? p : t;
    part_factor[lane] = base::exp_f32((p - top) * kLog2);
    total_factor[lane] = base::exp_f32((t - top) * kLog2);
    total.maximum[lane] = top;
  }
  for (std::int64_t i = 0; i < floats; i += kPanel)
    for (int lane = 0; lane < kPanel; ++lane)
      total.sums[i + lane] =
          total.sums[i + lane] * total_factor[lane] + part.sums[i + lane] * part_factor[lane];
}

/// Factors that turn each copy's sums into parts of the joint softmax, and the quantised copy's
/// share of the mass.
DGAP_MULTIVERSION void shares(int mass_row, const AttentionState& exact,
                              const AttentionState& quantized, float* exact_factor,
                              float* quantized_factor, float* quantized_mass) {
  const float* exact_total = exact.sums + mass_row * kPanel;
  const float* quantized_total = quantized.sums + mass_row * kPanel;
  for (int lane = 0; lane < kPanel; ++lane) {
    const float e = exact.maximum[lane], q = quantized.maximum[lane];
    const float top = e > q ? e : q;
    const float we = base::exp_f32((e - top) * kLog2), wq = base::exp_f32((q - top) * kLog2);
    const float total = we * exact_total[lane] + wq * quantized_total[lane];
    exact_factor[lane] = we / total;
    quantized_factor[lane] = wq / total;
    quantized_mass[lane] = wq * quantized_total[lane] / total;
  }
}

/// rows[lane, head_dim] = weight[lane] * sums[head_dim, lane].
DGAP_MULTIVERSION void transpose(int head_dim, const float* sums, const float* weight,
                                 float* rows) {
  for (int i = 0; i < head_dim; ++i)
    for (int lane = 0; lane < kPanel; ++lane)
      rows[lane * head_dim + i] = sums[i * kPanel + lane] * weight[lane];
}

DGAP_MULTIVERSION void add_transposed(int head_dim, const float* sums, const float* weight,
                                      float* rows) {
  for (int i = 0; i < head_dim; ++i)
    for (int lane = 0; lane < kPanel; ++lane)
      rows[lane * head_dim + i] += sums[i * kPanel + lane] * weight[lane];
}

template <class Task>
void parallel(std::int64_t count, const Task& task) {
  oneapi::tbb::parallel_for(std::int64_t{0}, count, task);
}

}  // namespace

Attention::Attention(int heads, const CacheShape& shape, const AttentionKernel& kernel)
    : heads_(heads),
      kv_heads_(shape.kv_heads),
      head_dim_(shape.head_dim),
      group_(heads / shape.kv_heads),
      kernel_(kernel) {
  const auto lines = [](std::size_t bytes) {
    return static_cast<std::int64_t>((bytes + 63) / 64 * 64);
  };
  query_bytes_ = lines(kernel.query_bytes(head_dim_));
  key_bytes_ = lines(kernel.key_bytes(head_dim_));
  tile_bytes_ = key_bytes_ + lines(kernel.value_bytes(head_dim_));
  state_floats_ = kPanel * (1 + kernel.sum_rows(head_dim_));
}

Attention::Plan::Plan(const Attention& attention, const KvCache& cache, std::int64_t first,
                      std::int64_t rows, std::int64_t sliding_window)
    : first_(first), rows_(rows), sliding_window_(sliding_window), group_(attention.group_) {
  blocks_ = (rows * group_ + kPanel - 1) / kPanel;
  views_.reserve(static_cast<std::size_t>(cache.views()));
  for (int view = 0; view < cache.views(); ++view) views_.push_back(make_view(cache, view));
}

Attention::Plan::View Attention::Plan::make_view(const KvCache& cache, int view) const {
  View made;
  const auto lanes = static_cast<std::size_t>(blocks_ * kPanel);
  for (int s = 0; s < kSegments; ++s) {
    made.low[s].reserve(lanes);
    made.high[s].reserve(lanes);
  }
  std::int64_t begin[kSegments], end[kSegments] = {};  // of what any row sees
  std::fill_n(begin, kSegments, first_ + rows_);
  for (std::int64_t position = first_; position < first_ + rows_; ++position) {
    const std::int64_t past = position + 1;
    const ExactTokens exact = cache.exact_tokens(view, position);
    const std::int64_t sinks = std::min(exact.sinks, past);
    const std::int64_t keys = std::clamp(exact.keys, sinks, past);
    const std::int64_t values = std::clamp(exact.values, sinks, past);
    const std::int64_t both = std::min(keys, values);
    std::int64_t low[kSegments] = {0, sinks, both, both, std::max(keys, values)};
    std::int64_t high[kSegments] = {sinks, both, keys, values, past};
    for (int s = 0; s < kSegments; ++s) {
      const auto group = static_cast<std::size_t>(group_);
      low[s] = std::max(low[s], oldest(position));
      high[s] = std::max(low[s], high[s]);
      made.low[s].insert(made.low[s].end(), group, static_cast<std::int32_t>(low[s]));
      made.high[s].insert(made.high[s].end(), group, static_cast<std::int32_t>(high[s]));
      if (low[s] == high[s]) continue;
      begin[s] = std::min(begin[s], low[s]);
      end[s] = std::max(end[s], high[s]);
    }
  }
  for (int s = 0; s < kSegments; ++s) {
    made.low[s].resize(lanes, made.low[s].back());  // lanes past the last row do as that row does
    made.high[s].resize(lanes, made.high[s].back());
    for (std::int64_t base = begin[s] / kAttentionTile * kAttentionTile; base < end[s];
         base += kAttentionTile) {
      const std::int64_t from = std::max(begin[s] - base, std::int64_t{0});
      const std::int64_t to = std::min(end[s] - base, std::int64_t{kAttentionTile});
      const Tile tile{static_cast<Segment>(s), base, static_cast<std::int32_t>(from),
                      static_cast<std::int32_t>(to)};
      made.quantized_keys |= tile.keys() == Copy::quantized;
      made.quantized_values |= tile.values() == Copy::quantized;
      constexpr std::int64_t kRun = kRunTiles * kAttentionTile;
      const bool opens = made.runs.empty() || made.tiles.back().segment != s ||
                         made.tiles.back().base / kRun != base / kRun;
      if (opens) made.runs.push_back({std::ssize(made.tiles), 0});
      made.tiles.push_back(tile);
      made.runs.back().last = std::ssize(made.tiles);
    }
  }
  return made;
}

struct Attention::Call {
  const Plan& plan;
  const KvCache& cache;
  const RopeTable& rope;
  int layer;
  const float* queries;
  Activations& out;
  Workspace& workspace;
  const Plan::View& view(int head) const {
    return plan.views_[static_cast<std::size_t>(cache.view(layer, head))];
  }
  const Plan::Tile& tile(int head, std::int64_t index) const {
    return view(head).tiles[static_cast<std::size_t>(index)];
  }
  std::int64_t runs(int head) const { return std::ssize(view(head).runs); }
  const Plan::Run& run(int head, std::int64_t index) const {
    return view(head).runs[static_cast<std::size_t>(index)];
  }
  int key_parts(int head, const Plan::Tile& tile) const {
    return tile.keys() == Copy::exact || cache.fine_keys(layer, head) ? 2 : 1;
  }
  bool rotated(int head) const {
    return view(head).quantized_keys && cache.rotates_queries(layer, head);
  }
};

// Workspace: per head and block the queries (plain and, where needed, rotated) and the states of
// both copies of the values; per head the staged tiles of a run, or the states of every run.

char* Attention::query_block(const Call& call, int head, std::int64_t block, Copy copy) const {
  const std::int64_t at = (head * call.plan.blocks_ + block) * 2;
  const bool second = copy == Copy::quantized && call.rotated(head);
  return call.workspace.queries_.data() + (at + (second ? 1 : 0)) * query_bytes_;
}

AttentionState Attention::state(float* states, std::int64_t index) const {
  float* p = states + index * state_floats_;
  return {p, p + kPanel};
}

AttentionState Attention::total(const Call& call, int head, std::int64_t block, Copy copy) const {
  return state(call.workspace.states_.data(),
               (head * call.plan.blocks_ + block) * 2 + (copy == Copy::quantized ? 1 : 0));
}

void Attention::empty(float* states, std::int64_t count) const {
  std::fill_n(states, count * state_floats_, 0.0f);
  for (std::int64_t i = 0; i < count; ++i) std::fill_n(state(states, i).maximum, kPanel, kNothing);
}

void Attention::run(const Plan& plan, const KvCache& cache, const RopeTable& rope, int layer,
                    const float* queries, Activations& out, Workspace& workspace) const {
  const std::int64_t blocks = plan.blocks_;
  workspace.queries_.reserve(kv_heads_ * blocks * 2 * query_bytes_);
  workspace.states_.reserve(kv_heads_ * blocks * 2 * state_floats_);
  const Call call{plan, cache, rope, layer, queries, out, workspace};
  parallel(kv_heads_ * blocks,
           [&](std::int64_t i) { prepare(call, static_cast<int>(i / blocks), i % blocks); });
  std::int64_t runs = 0;
  for (int head = 0; head < kv_heads_; ++head) runs = std::max(runs, call.runs(head));
  blocks <= kFewBlocks ? attend_by_runs(call, runs) : attend_by_blocks(call, runs);
}

/// Few blocks: a task reads the tiles of a run and passes over them, while they are near; the runs
/// are added up in order afterwards.
void Attention::attend_by_runs(const Call& call, std::int64_t runs) const {
  constexpr std::int64_t kTiles = 2;  // read at a time
  const std::int64_t blocks = call.plan.blocks_;
  call.workspace.parts_.reserve(kv_heads_ * runs * blocks * state_floats_);
  const auto parts = [&](int head, std::int64_t run) {
    return call.workspace.parts_.data() + (head * runs + run) * blocks * state_floats_;
  };
  parallel(kv_heads_ * runs, [&](std::int64_t i) {
    const auto head = static_cast<int>(i % kv_heads_);
    if (i / kv_heads_ >= call.runs(head)) return;
    float* sums = parts(head, i / kv_heads_);
    char* tiles = tile_scratch(kTiles * tile_bytes_);
    empty(sums, blocks);
    const auto [first, last] = call.run(head, i / kv_heads_);
    const KernelScope scope(kernel_);
    for (std::int64_t tile = first; tile < last; tile += kTiles) {
      const std::int64_t some = std::min(kTiles, last - tile);
      for (std::int64_t t = 0; t < some; ++t) stage(call, head, tile + t, tiles + t * tile_bytes_);
      attend(call, head, {tile, tile + some}, tiles, 0, blocks, sums);
    }
  });
  parallel(kv_heads_ * blocks, [&](std::int64_t i) {
    const auto head = static_cast<int>(i / blocks);
    for (std::int64_t run = 0; run < call.runs(head); ++run)
      add(call, head, run, i % blocks, state(parts(head, run), i % blocks));
    finish(call, head, i % blocks);
  });
}

/// Many blocks: all threads read a run's tiles, then each passes over them with some blocks.
void Attention::attend_by_blocks(const Call& call, std::int64_t runs) const {
  const std::int64_t groups = (call.plan.blocks_ + kBlocksPerTask - 1) / kBlocksPerTask;
  call.workspace.tiles_.reserve(kv_heads_ * kRunTiles * tile_bytes_);
  const auto staged = [&](int head) {
    return call.workspace.tiles_.data() + head * kRunTiles * tile_bytes_;
  };
  for (std::int64_t run = 0; run < runs; ++run) {
    parallel(kv_heads_ * kRunTiles, [&](std::int64_t i) {  // heads share their positions' cosines
      const auto head = static_cast<int>(i % kv_heads_);
      if (run >= call.runs(head)) return;
      const std::int64_t tile = i / kv_heads_, index = call.run(head, run).first + tile;
      if (index < call.run(head, run).last)
        stage(call, head, index, staged(head) + tile * tile_bytes_);
    });
    parallel(kv_heads_ * groups, [&](std::int64_t i) {
      const auto head = static_cast<int>(i / groups);
      if (run >= call.runs(head)) return;
      const std::int64_t begin = i % groups * kBlocksPerTask;
      const std::int64_t end = std::min(begin + kBlocksPerTask, call.plan.blocks_);
      float* sums = state_scratch(kBlocksPerTask * state_floats_);
      empty(sums, end - begin);
      const KernelScope scope(kernel_);
      attend(call, head, call.run(head, run), staged(head), begin, end, sums);
      for (std::int64_t block = begin; block < end; ++block)
        add(call, head, run, block, state(sums, block - begin));
    });
  }
  const std::int64_t blocks = call.plan.blocks_;
  parallel(kv_heads_ * blocks,
           [&](std::int64_t i) { finish(call, static_cast<int>(i / blocks), i % blocks); });
}

/// Adds a run's state to the total of its copy of the values.
void Attention::add(const Call& call, int head, std::int64_t run, std::int64_t block,
                    const AttentionState& part) const {
  const Copy values = call.tile(head, call.run(head, run).first).values();
  add_state(state_floats_ - kPanel, part, total(call, head, block, values));
}

/// Gathers, rotates and packs a block's queries, and empties its states.
void Attention::prepare(const Call& call, int head, std::int64_t block) const {
  float* rows = row_scratch(kPanel * head_dim_);
  const std::int64_t first = block * kPanel, count = call.plan.rows_ * group_;
  for (std::int64_t lane = 0; lane < kPanel; ++lane) {
    const std::int64_t query = std::min(first + lane, count - 1), row = query / group_;
    const std::int64_t query_head = head * group_ + query % group_;
    call.rope.apply(call.plan.first_ + row, 1,
                    call.queries + (row * heads_ + query_head) * head_dim_, head_dim_,
                    rows + lane * head_dim_);
  }
  kernel_.pack_queries(head_dim_, rows, query_block(call, head, block, Copy::exact));
  if (call.rotated(head)) {
    call.cache.rotate_queries(call.layer, head, kPanel, rows);
    kernel_.pack_queries(head_dim_, rows, query_block(call, head, block, Copy::quantized));
  }
  empty(total(call, head, block, Copy::exact).maximum, 2);
}

/// Reads a tile from the cache into the kernel's layout, at `keys`; slots up to the next multiple
/// of 32 are zero.
void Attention::stage(const Call& call, int head, std::int64_t index, char* keys) const {
  const Plan::Tile& tile = call.tile(head, index);
  const int first = tile.begin / 32 * 32, last = round_up(tile.end, 32);
  char* values = keys + key_bytes_;
  // Slots [from, to) as f32, zeros where none is filled.
  const auto read = [&](int from, int to, Copy copy, float* out, const auto& read_rows) {
    const int begin = std::clamp(tile.begin, from, to), end = std::clamp(tile.end, begin, to);
    std::fill_n(out, (begin - from) * head_dim_, 0.0f);
    read_rows(call.layer, head, copy, tile.base + begin, tile.base + end,
              out + (begin - from) * head_dim_);
    std::fill_n(out + (end - from) * head_dim_, (to - end) * head_dim_, 0.0f);
  };
  const auto read_keys = [&](auto... a) { call.cache.read_keys(a...); };
  const auto read_values = [&](auto... a) { call.cache.read_values(a...); };
  if (kernel_.natural) {
    const std::int64_t offset = std::int64_t{first} * head_dim_;
    read(first, last, tile.keys(), reinterpret_cast<float*>(keys) + offset, read_keys);
    read(first, last, tile.values(), reinterpret_cast<float*>(values) + offset, read_values);
    return;
  }
  constexpr int kSlots = 32;  // whose rows stay in the first-level cache
  const int parts = call.key_parts(head, tile);
  float* rows = row_scratch(kSlots * head_dim_);
  for (int slot = first; slot < last; slot += kSlots) {
    read(slot, slot + kSlots, tile.keys(), rows, read_keys);
    kernel_.pack_keys(head_dim_, parts, slot, slot + kSlots, rows, keys);
    read(slot, slot + kSlots, tile.values(), rows, read_values);
    kernel_.pack_values(head_dim_, slot, slot + kSlots, rows, values);
  }
}

/// Tiles of a run, in the kernel's layout at `staged`, against blocks [begin, end), whose states
/// are at `sums`.
void Attention::attend(const Call& call, int head, Plan::Run run, const char* staged,
                       std::int64_t begin, std::int64_t end, float* sums) const {
  constexpr std::int64_t kJobs = kRunTiles * kBlocksPerTask;
  AttentionJob jobs[kJobs];
  alignas(64) std::int32_t bounds[kJobs][2][kPanel];
  int count = 0;
  const Plan::View& view = call.view(head);
  const std::int64_t lanes = call.plan.rows_ * group_;
  for (std::int64_t index = run.first; index < run.last; ++index, staged += tile_bytes_) {
    const Plan::Tile& tile = call.tile(head, index);
    for (std::int64_t block = begin; block < end; ++block) {
      auto& [from, to] = bounds[count];
      const auto at = static_cast<std::size_t>(block * kPanel);
      clip(&view.low[tile.segment][at], &view.high[tile.segment][at],
           static_cast<std::int32_t>(tile.base), from, to);
      jobs[count++] = {staged,
                       call.key_parts(head, tile),
                       staged + key_bytes_,
                       query_block(call, head, block, tile.keys()),
                       from,
                       to,
                       state(sums, block - begin)};
    }
  }
  kernel_.attend(head_dim_, static_cast<int>(std::min<std::int64_t>(lanes, kPanel)), jobs, count);
}

/// Joins the two copies and writes the block's rows.
void Attention::finish(const Call& call, int head, std::int64_t block) const {
  const AttentionState exact = total(call, head, block, Copy::exact);
  const AttentionState quantized = total(call, head, block, Copy::quantized);
  alignas(64) float exact_weight[kPanel], quantized_weight[kPanel], mass[kPanel];
  shares(kernel_.sum_rows(head_dim_) - 1, exact, quantized, exact_weight, quantized_weight, mass);
  float* rows = row_scratch(kPanel * head_dim_);
  if (call.view(head).quantized_values) {
    transpose(head_dim_, quantized.sums, quantized_weight, rows);
    call.cache.finish_values(call.layer, head, kPanel, mass, rows);
    add_transposed(head_dim_, exact.sums, exact_weight, rows);
  } else {
    transpose(head_dim_, exact.sums, exact_weight, rows);
  }
  const std::int64_t first = block * kPanel, count = call.plan.rows_ * group_;
  for (std::int64_t query = first; query < std::min(first + kPanel, count); ++query) {
    const std::int64_t query_head = head * group_ + query % group_;
    call.out.store(query / group_, query_head * head_dim_, head_dim_,
                   rows + (query - first) * head_dim_);
  }
}

}  // namespace dgap::engine
