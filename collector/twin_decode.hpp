#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collector/paired_block.hpp"
#include "engine/model/decoder.hpp"
#include "schemas/config/config.hpp"

namespace dgap::collector {

/// Unit of a pass: its context, its targets' rows.
struct TwinDecode {
  const engine::Decoder& decoder;
  std::span<const schemas::Scheme> precisions;
  int steps = 0;            // D
  int block = 0;            // rows that are decoded at once
  bool stepwise = false;    // one token at a time (both decodes)
  std::size_t at_once = 1;  // precisions that are decoded side by side

  /// Told as a pass goes on: all its units for a group of precisions, then again for the next
  /// group.
  struct Listener {
    virtual ~Listener() = default;
    virtual void begin_group(PrecisionGroup group) = 0;
    virtual void begin_unit(int context) = 0;
    /// The block holds steps [first, first + targets.size()) of the unit, of the reference and of
    /// the group's decodes.
    virtual void take_block(std::int64_t first, std::span<const std::int32_t> targets) = 0;
    /// `caches`: of the group's decodes.
    virtual void end_unit(const std::vector<engine::CacheBytes>& caches) = 0;
  };

  /// arXiv:2607.16248 Eq. 1, for every context of a pass (ascending, each at least D longer than
  /// the one before) over `tokens` [last context + D]. Step t of a unit of context L consumes
  /// tokens[L-1+t] and predicts tokens[L+t]; the exact prefix that is quantised holds tokens 0 ..
  /// L-2. One exact prefix serves all schemes with `prefill: exact`; each of the others makes a
  /// pass of its own, in which a row attends to what its cache holds. Reference and quantised
  /// decodes advance together, block by block. With more precisions than go at once, a later group
  /// continues the same exact prefix, and only the reference's steps are decoded again, with the
  /// same result. Throws InterruptedError between blocks.
  void run(std::span<const std::int32_t> tokens, std::span<const int> contexts, PairedBlock& rows,
           Listener& listener) const;

 private:
  /// Decodes of one unit, by precision of the group.
  using Decodes = std::vector<engine::Sequence*>;
  void run_group(std::span<const std::int32_t> tokens, std::span<const int> contexts,
                 std::span<const schemas::Scheme> group, engine::Sequence& exact, PairedBlock& rows,
                 Listener& listener) const;
  void run_unit(std::span<const std::int32_t> tokens, int context, engine::Sequence& reference,
                const Decodes& decodes, PairedBlock& rows, Listener& listener) const;
  void advance(engine::Sequence& sequence, std::span<const std::int32_t> tokens,
               engine::LogitsSink& sink) const;
};

}  // namespace dgap::collector
