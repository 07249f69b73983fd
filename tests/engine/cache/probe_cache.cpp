/// Feeds a quantised cache from a file and writes what it stores and reads, for
/// conformance_cache.py.
///
///   probe_cache JOB.json KEYS.f32 VALUES.f32 OUT
///
/// JOB: {"scheme": {...}, "layers", "kv_heads", "head_dim", "rope_theta", "tokens", "prefix",
/// "block"}. Tensors: raw f32 [layers, tokens, kv_heads, head_dim]. OUT, per layer, head and tensor
/// (K, V), one array after the other: u8 codes, u16 scales, u16 minima, f32 mean, f32 rms, f32
/// quantised reads of all codes, f32 exact reads of the tokens after those.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/files.hpp"
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

void feed(KvCache& cache, const CacheShape& shape, std::int64_t tokens, std::int64_t from,
          std::int64_t to, const std::vector<float>& keys, const std::vector<float>& values) {
  const std::int64_t row = std::int64_t{shape.kv_heads} * shape.head_dim;
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::int64_t offset = (layer * tokens + from) * row;
    cache.append(layer, to - from, keys.data() + offset, values.data() + offset);
  }
}

void run(char** argv) {
  const auto job = nlohmann::json::parse(base::read_file(argv[1]));
  const CacheShape shape{job.at("layers"), job.at("kv_heads"), job.at("head_dim"),
                         job.at("rope_theta").get<double>()};
  const std::int64_t tokens = job.at("tokens"), prefix_length = job.at("prefix"),
                     block = job.at("block");
  const std::vector<float> keys = read_floats(argv[2]), values = read_floats(argv[3]);
  const auto prefix = make_exact_cache(shape, ExactCacheType::f16, prefix_length, true);
  feed(*prefix, shape, tokens, 0, prefix_length, keys, values);
  QuantizedCache cache(schemas::scheme_from_json(job.at("scheme"), "job"), *prefix, prefix_length);
  for (std::int64_t t = prefix_length; t < tokens; t += block)
    feed(cache, shape, tokens, t, std::min(tokens, t + block), keys, values);

  std::ofstream out(argv[4], std::ios::binary);
  const auto write = [&](auto span) {
    out.write(reinterpret_cast<const char*>(span.data()),
              static_cast<std::streamsize>(span.size() * sizeof(span[0])));
  };
  std::vector<float> reads(static_cast<std::size_t>(tokens * shape.head_dim));
  const auto dump = [&](const QuantizedCache::Raw& raw, int layer, int head, auto read) {
    write(raw.codes), write(raw.scales), write(raw.minima), write(raw.mean), write(raw.rms);
    const std::int64_t middle = raw.first + raw.tokens;
    for (const auto& [copy, from, to] : {std::tuple(Copy::quantized, raw.first, middle),
                                         std::tuple(Copy::exact, middle, tokens)}) {
      (cache.*read)(layer, head, copy, from, to, reads.data());
      write(std::span(reads).first(static_cast<std::size_t>((to - from) * shape.head_dim)));
    }
  };
  for (int layer = 0; layer < shape.layers; ++layer)
    for (int head = 0; head < shape.kv_heads; ++head) {
      dump(cache.raw_key(layer, head), layer, head, &QuantizedCache::read_keys);
      dump(cache.raw_value(layer, head), layer, head, &QuantizedCache::read_values);
    }
  if (!out) throw std::runtime_error("cannot write the output");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return std::fprintf(stderr, "usage: probe_cache JOB KEYS VALUES OUT\n"), 2;
  try {
    run(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "probe_cache: %s\n", error.what());
    return 1;
  }
}
