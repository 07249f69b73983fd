#pragma once
#include <string>
#include <vector>

#include "collector/schedule.hpp"
#include "collector/twin_decode.hpp"
#include "schemas/trace/trace.hpp"

namespace dgap::collector {

/// Fills one part of a trace from the passes that belong to it.
class PartBuilder : public TwinDecode::Listener {
 public:
  /// `schemes`: the configuration's, as they are recorded; `steps`: of the whole part.
  PartBuilder(const schemas::TraceHeader& header, const schemas::Config& config,
              std::span<const schemas::Scheme> schemes, std::int64_t steps, PairedBlock& rows,
              base::Progress& progress);

  /// Call before the pass is decoded; its ids as tokens_of gives them.
  void begin_pass(const ScheduledBook& book, const Pass& pass,
                  std::span<const std::int32_t> tokens);
  /// The finished part; bits per element are means over its units.
  schemas::TracePart take();

  void begin_group(PrecisionGroup group) override;
  void begin_unit(int context) override;
  void take_block(std::int64_t first, std::span<const std::int32_t> targets) override;
  void end_unit(const std::vector<engine::CacheBytes>& caches) override;

 private:
  std::string where(std::int64_t first) const;

  PairedBlock& rows_;
  base::Progress& progress_;
  std::string layout_, domain_;
  schemas::TracePart part_;
  PrecisionGroup group_;
  std::size_t pass_unit_ = 0, unit_ = 0;  // first of the pass, and the one that is decoded
  const ScheduledBook* book_ = nullptr;
  const Pass* pass_ = nullptr;
  std::span<const std::int32_t> tokens_;
};

}  // namespace dgap::collector
