#include "collector/part_builder.hpp"

#include <nlohmann/json.hpp>

namespace dgap::collector {

PartBuilder::PartBuilder(const schemas::TraceHeader& header, const schemas::Config& config,
                         std::span<const schemas::Scheme> schemes, std::int64_t steps,
                         PairedBlock& rows, base::Progress& progress)
    : rows_(rows),
      progress_(progress),
      layout_(config.corpus.layout),
      domain_(layout_ == "pg19"   ? "books"
              : layout_ == "chat" ? "chat"
                                  : "text") {
  part_.header = header;
  part_.config_yaml = schemas::to_trace_yaml(config);
  part_.top = rows.shape().top;
  for (const schemas::Scheme& scheme : schemes) {
    part_.precisions.push_back({scheme.name, schemas::to_json(scheme).dump()});
  }
  part_.columns.resize(config.precisions.size());
  rows_.prepare(part_, steps);
}

void PartBuilder::begin_pass(const ScheduledBook& book, const Pass& pass,
                             std::span<const std::int32_t> tokens) {
  book_ = &book;
  pass_ = &pass;
  tokens_ = tokens;
  pass_unit_ = part_.units.size();
}

void PartBuilder::begin_group(PrecisionGroup group) {
  group_ = group;
  unit_ = pass_unit_;
}

void PartBuilder::begin_unit(int context) {
  if (unit_ < part_.units.size()) return;  // the first group has been here
  schemas::TraceUnit unit;
  const bool prompt = !pass_->kind.empty();
  unit.book = book_->book.name, unit.split = book_->book.split;
  unit.source = prompt ? "retrieval" : layout_;
  unit.domain = prompt ? std::string(pass_->kind) : domain_;
  unit.text_sha256 = text_of(*book_, *pass_);
  unit.context = context, unit.start = pass_->start, unit.steps = pass_->steps;
  unit.first_step = part_.steps();
  unit.first_token = static_cast<std::int64_t>(part_.tokens.size());
  const auto own = tokens_.first(static_cast<std::size_t>(context + unit.steps));
  part_.tokens.insert(part_.tokens.end(), own.begin(), own.end());
  for (std::int32_t t = 0; t < unit.steps; ++t) {
    part_.step_unit.push_back(static_cast<std::int32_t>(part_.units.size()));
    part_.step_position.push_back(context - 1 + t);
    part_.step_target.push_back(own[context + t]);
  }
  part_.units.push_back(std::move(unit));
}

void PartBuilder::take_block(std::int64_t first, std::span<const std::int32_t> targets) {
  rows_.put_into(part_, group_, part_.units[unit_].first_step + first, targets, where(first));
  progress_.advance(static_cast<std::int64_t>(targets.size() * group_.count));
}

void PartBuilder::end_unit(const std::vector<engine::CacheBytes>& caches) {
  for (std::size_t p = 0; p < caches.size(); ++p) {  // sums for now
    schemas::PrecisionInfo& info = part_.precisions[group_.first + p];
    info.bits_per_element_key += caches[p].bits_key();
    info.bits_per_element_value += caches[p].bits_value();
    info.total_bits_per_element_key += caches[p].total_bits_key();
    info.total_bits_per_element_value += caches[p].total_bits_value();
  }
  ++unit_;
}

schemas::TracePart PartBuilder::take() {
  const auto units = static_cast<double>(part_.units.size());
  for (schemas::PrecisionInfo& info : part_.precisions) {
    info.bits_per_element_key /= units;
    info.bits_per_element_value /= units;
    info.total_bits_per_element_key /= units;
    info.total_bits_per_element_value /= units;
  }
  return std::move(part_);
}

std::string PartBuilder::where(std::int64_t first) const {
  return book_->book.where() + (pass_->kind.empty() ? "" : ", retrieval prompt") + ", prefix of " +
         std::to_string(part_.units[unit_].context) + " tokens from " +
         std::to_string(pass_->start) + ", steps from " + std::to_string(first);
}

}  // namespace dgap::collector
