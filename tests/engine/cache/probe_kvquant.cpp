/// Calibrates kvquant tensors, feeds a cache of them and writes what it stores and reads, for
/// conformance_kvquant.py.
///
///   probe_kvquant JOB.json KEYS.f32 VALUES.f32 CALIBRATION.json OUT
///
/// JOB: {"scheme": {...}, "layers", "kv_heads", "head_dim", "rope_theta", "tokens", "block"}.
/// Tensors: raw f32 [layers, tokens, kv_heads, head_dim]; their first half is the calibration text.
/// Writes CALIBRATION and, per layer and tensor (K, V), u8 codes, u16 ranges, u32 row ends, u16
/// channels, u16 outliers, then per head f32 reads of all tokens beyond the sinks.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/files.hpp"
#include "engine/cache/kvquant_calibration.hpp"
#include "engine/cache/kvquant_codes.hpp"
#include "engine/cache/quantized_cache.hpp"

namespace {

using namespace dgap;
using namespace dgap::engine;

std::vector<float> read_floats(const char* path) {
  const std::string bytes = base::read_file(path);
  std::vector<float> x(bytes.size() / sizeof(float));
  std::memcpy(x.data(), bytes.data(), x.size() * sizeof(float));
  return x;
}

schemas::TensorCalibration calibrate(const schemas::TensorScheme& tensor, int width,
                                     std::int64_t rows, const float* x) {
  return calibrate_kvquant(tensor, width, rows,
                           [&](std::int64_t from, std::int64_t to, float* out) {
                             std::copy(x + from * width, x + to * width, out);
                           });
}

void run(char** argv) {
  const auto job = nlohmann::json::parse(base::read_file(argv[1]));
  const CacheShape shape{job.at("layers"), job.at("kv_heads"), job.at("head_dim"),
                         job.at("rope_theta").get<double>()};
  const std::int64_t tokens = job.at("tokens"), block = job.at("block");
  const int width = shape.kv_heads * shape.head_dim;
  const std::vector<float> keys = read_floats(argv[2]), values = read_floats(argv[3]);
  schemas::Scheme scheme = schemas::scheme_from_json(job.at("scheme"), "job");
  schemas::Calibration calibration;
  const auto layer_of = [&](const std::vector<float>& x, int layer) {
    return x.data() + layer * tokens * width;
  };
  for (int layer = 0; layer < shape.layers; ++layer)
    calibration.layers.push_back(
        {calibrate(scheme.key, width, tokens / 2, layer_of(keys, layer)),
         calibrate(scheme.value, width, tokens / 2, layer_of(values, layer))});
  base::write_file_atomically(argv[4], schemas::encode_calibration(calibration));
  scheme.calibration = argv[4];

  QuantizedCache cache(scheme, shape);
  for (std::int64_t t = 0; t < tokens; t += block)
    for (int layer = 0; layer < shape.layers; ++layer)
      cache.append(layer, std::min(block, tokens - t), layer_of(keys, layer) + t * width,
                   layer_of(values, layer) + t * width);

  std::ofstream out(argv[5], std::ios::binary);
  const auto write = [&](auto span) {
    out.write(reinterpret_cast<const char*>(span.data()),
              static_cast<std::streamsize>(span.size_bytes()));
  };
  std::vector<float> reads(
      static_cast<std::size_t>((tokens - scheme.sink_tokens) * shape.head_dim));
  const auto dump = [&](const LayerCodes* codes, int layer, auto read) {
    const auto& own = dynamic_cast<const KvquantCodes&>(*codes);
    write(own.codes()), write(own.ranges()), write(own.row_ends());
    write(own.channels()), write(own.outliers());
    for (int head = 0; head < shape.kv_heads; ++head) {
      (cache.*read)(layer, head, Copy::quantized, scheme.sink_tokens, tokens, reads.data());
      write(std::span<const float>(reads));
    }
  };
  for (int layer = 0; layer < shape.layers; ++layer) {
    dump(cache.layer_keys(layer), layer, &QuantizedCache::read_keys);
    dump(cache.layer_values(layer), layer, &QuantizedCache::read_values);
  }
  const CacheBytes bytes = cache.bytes();
  const std::int64_t counts[] = {bytes.code_bytes_key, bytes.code_bytes_value,
                                 bytes.total_bytes_key, bytes.total_bytes_value};
  write(std::span<const std::int64_t>(counts));
  if (!out) throw std::runtime_error("cannot write the output");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return std::fprintf(stderr, "usage: probe_kvquant JOB KEYS VALUES CAL OUT\n"), 2;
  try {
    run(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "probe_kvquant: %s\n", error.what());
    return 1;
  }
}
