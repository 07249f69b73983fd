#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/backend/cpu/buffer.hpp"
#include "engine/backend/cpu/kernels.hpp"
#include "engine/backend/cpu/matmul.hpp"
#include "engine/cache/kv_cache.hpp"
#include "engine/cache/rope.hpp"

namespace dgap::engine {

/// Causal attention of a block of rows over a cache, exact or quantised (kv_cache.hpp "Rows and
/// copies"). One routine for prefill, blocked decode and single steps.
///
/// The query heads that share a key/value head make one list of rows (token by token), cut into
/// blocks of 32. Stored tokens come in tiles of 256 at fixed positions, read from the cache once
/// per layer, and up to eight tiles make a run. A block keeps a running maximum, mass and weighted
/// sum over the tiles of a run (online softmax, arXiv:2205.14135); runs are added up in order, per
/// copy of the values, and at the end the quantised sums go through finish_values and the two are
/// joined. Where a tile and a run lie and what a row sees in them depend on positions alone, so a
/// row's result does not depend on the rows it comes with.
class Attention {
 public:
  Attention(int heads, const CacheShape& shape, const AttentionKernel& kernel);

  /// What the rows at positions [first, first + rows) see, the same for all layers with the same
  /// sliding window: a row at position i sees tokens j > i - sliding_window (0: all). Made before
  /// the first layer is appended.
  class Plan {
   public:
    Plan(const Attention& attention, const KvCache& cache, std::int64_t first, std::int64_t rows,
         std::int64_t sliding_window = 0);

   private:
    friend class Attention;
    /// Runs of tokens whose keys and values a row sees in the same copies.
    enum Segment { kSinks, kQuantized, kQuantizedKeys, kQuantizedValues, kWindow, kSegments };
    struct Tile {
      Segment segment;
      std::int64_t base;        // position of slot 0, a multiple of 256
      std::int32_t begin, end;  // slots that are filled
      Copy keys() const {
        return segment == kQuantized || segment == kQuantizedKeys ? Copy::quantized : Copy::exact;
      }
      Copy values() const {
        return segment == kQuantized || segment == kQuantizedValues ? Copy::quantized : Copy::exact;
      }
    };
    /// Tiles [first, last) of one segment and the same 2,048 positions.
    struct Run {
      std::int64_t first, last;
    };
    /// What the rows of one of the cache's views see.
    struct View {
      bool quantized_keys = false, quantized_values = false;
      std::vector<Tile> tiles;
      std::vector<Run> runs;
      // Positions [low, high) that a query row sees of a segment.
      std::vector<std::int32_t> low[kSegments], high[kSegments];
    };
    View make_view(const KvCache& cache, int view) const;
    /// First token that a row at `position` sees.
    std::int64_t oldest(std::int64_t position) const {
      return sliding_window_ == 0 ? 0 : std::max(position + 1 - sliding_window_, std::int64_t{0});
    }

    std::int64_t first_, rows_, sliding_window_, blocks_;
    int group_;
    std::vector<View> views_;
  };

  /// Scratch, kept between calls.
  class Workspace {
    friend class Attention;
    Buffer<char> tiles_, queries_;
    Buffer<float> states_, parts_;
  };

  /// queries [rows, heads, head_dim] before RoPE; their attention goes to columns
  /// [0, heads * head_dim) of `out`. The rows have been appended to `layer`.
  void run(const Plan& plan, const KvCache& cache, const RopeTable& rope, int layer,
           const float* queries, Activations& out, Workspace& workspace) const;

 private:
  struct Call;
  void prepare(const Call& call, int head, std::int64_t block) const;
  void attend_by_runs(const Call& call, std::int64_t runs) const;
  void attend_by_blocks(const Call& call, std::int64_t runs) const;
  void stage(const Call& call, int head, std::int64_t tile, char* keys) const;
  void attend(const Call& call, int head, Plan::Run run, const char* staged, std::int64_t begin,
              std::int64_t end, float* sums) const;
  void add(const Call& call, int head, std::int64_t run, std::int64_t block,
           const AttentionState& part) const;
  void finish(const Call& call, int head, std::int64_t block) const;

  char* query_block(const Call& call, int head, std::int64_t block, Copy copy) const;
  AttentionState state(float* states, std::int64_t index) const;
  AttentionState total(const Call& call, int head, std::int64_t block, Copy copy) const;
  void empty(float* states, std::int64_t count) const;

  int heads_, kv_heads_, head_dim_, group_;  // group: query heads per key/value head
  const AttentionKernel& kernel_;
  std::int64_t query_bytes_, tile_bytes_, key_bytes_, state_floats_;
};

}  // namespace dgap::engine
