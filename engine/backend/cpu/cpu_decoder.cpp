#include "engine/backend/cpu/cpu_decoder.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "engine/backend/cpu/cpu_sequence.hpp"

namespace dgap::engine {
namespace {

/// The hyper-parameters, checked for what the code here relies on.
const WeightSource& checked(const WeightSource& source) {
  const HyperParameters& p = source.parameters();
  const auto require = [&](bool ok, const std::string& what) {
    if (!ok) throw base::IoError(p.name + ": " + what);
  };
  require(p.vocab_size > 0 && p.hidden_size > 0 && p.intermediate_size > 0 && p.layers > 0 &&
              p.context_length > 0,
          "vocabulary, hidden and intermediate size, layers and context length must be positive");
  require(p.kv_heads > 0 && p.heads > 0 && p.heads % p.kv_heads == 0,
          std::to_string(p.heads) + " query heads are not a multiple of " +
              std::to_string(p.kv_heads) + " key/value heads");
  require(p.head_dim > 0 && p.head_dim % 2 == 0,
          "head_dim " + std::to_string(p.head_dim) + " must be even and positive");
  require(p.sliding_window >= 0 &&
              (p.windowed.empty() || std::ssize(p.windowed) == std::int64_t{p.layers}),
          "sliding windows must be given for each layer");
  return source;
}

ModelInfo model_info(const CpuModel& model) {
  const HyperParameters& p = model.parameters;
  ModelInfo info;
  info.name = p.name, info.architecture = p.architecture, info.license = p.license;
  info.vocab_size = p.vocab_size, info.hidden_size = p.hidden_size;
  info.layers = p.layers, info.heads = p.heads, info.kv_heads = p.kv_heads;
  info.head_dim = p.head_dim, info.context_length = p.context_length;
  info.model_sha256 = model.sha256;
  info.notes = p.notes;
  return info;
}

}  // namespace

Compute resolve_compute(const std::string& name, Isa isa) {
  if (name == "f32") return Compute::f32;
  if (name == "bf16") return Compute::bf16;
  if (name == "auto") return isa >= Isa::avx512_bf16 ? Compute::bf16 : Compute::f32;
  throw base::UsageError("model.compute: \"" + name + "\" is not one of auto, f32 and bf16");
}

CpuDecoder::CpuDecoder(const WeightSource& source, const DecoderOptions& options, Isa isa)
    : model_(checked(source), isa, resolve_compute(options.compute, isa)),
      info_(model_info(model_)),
      shape_{info_.layers, info_.kv_heads, info_.head_dim, model_.parameters.rope},
      exact_cache_(options.exact_cache),
      attention_(info_.heads, shape_, attention_kernel(isa, model_.compute)) {}

std::string CpuDecoder::cpu_isa() const { return product_kernel(model_.isa, model_.compute).name; }

std::unique_ptr<Sequence> CpuDecoder::begin(std::int64_t capacity, bool keep_pre_rope) const {
  if (capacity < 0 || capacity > info_.context_length)
    throw base::UsageError(info_.name + ": a sequence of " + std::to_string(capacity) +
                           " tokens does not fit the model's context of " +
                           std::to_string(info_.context_length));
  return std::make_unique<CpuSequence>(
      *this, make_exact_cache(shape_, exact_cache_, capacity, keep_pre_rope));
}

std::unique_ptr<Sequence> CpuDecoder::begin_quantized(const schemas::Scheme& scheme) const {
  return std::make_unique<CpuSequence>(*this, make_quantized_cache(scheme, shape_));
}

std::shared_ptr<const RopeTable> CpuDecoder::rope(std::int64_t capacity) const {
  constexpr std::int64_t kAtLeast = 2048;
  const std::lock_guard lock(mutex_);
  const std::int64_t have = rope_ == nullptr ? 0 : rope_->capacity();
  if (have < capacity) {
    rope_ = std::make_shared<RopeTable>(info_.head_dim, shape_.rope,
                                        std::max({capacity, 2 * have, kAtLeast}));
  }
  return rope_;
}

}  // namespace dgap::engine
