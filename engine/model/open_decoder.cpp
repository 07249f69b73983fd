#include "base/error.hpp"
#include "engine/backend/cpu/cpu_decoder.hpp"
#include "engine/formats/open_weights.hpp"
#include "engine/model/decoder.hpp"

namespace dgap::engine {

std::unique_ptr<Decoder> open_decoder(const std::string& path, const std::string& format,
                                      const std::string& device, const DecoderOptions& options) {
  if (device == "cuda")
    throw base::UnavailableError(
        "model.device: cuda: this version has no CUDA backend (its place is engine/backend/cuda); "
        "use `device: cpu`");
  if (device != "cpu")
    throw base::UsageError("model.device: \"" + device + "\" is not one of cpu and cuda");
  resolve_compute(options.compute, detected_isa());  // before the file is read
  return std::make_unique<CpuDecoder>(*open_weights(path, format), options);
}

std::unique_ptr<Sequence> continue_prefix(const Decoder& decoder, const Sequence& exact,
                                          std::span<const std::int32_t> prefix,
                                          const schemas::Scheme& scheme) {
  if (scheme.prefill == schemas::PrefillMode::exact) return exact.fork(scheme, std::ssize(prefix));
  auto sequence = decoder.begin_quantized(scheme);
  sequence->append(prefix, nullptr);
  return sequence;
}

}  // namespace dgap::engine
