/// Feeds a cache of transformers' kind from a file and writes what it stores and reads, for
/// conformance_hf.py.
///
///   probe_hf JOB.json VALUES.f32 OUT
///
/// JOB: {"scheme": {...}, "kv_heads", "head_dim", "tokens", "prefix", "block"}; one layer, whose
/// values are compared (keys differ from them in RoPE alone). VALUES: raw f32 [tokens, kv_heads,
/// head_dim]. OUT: u8 codes, u16 pairs of scale and zero, then per head f32 reads of all codes.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/files.hpp"
#include "engine/cache/hf_codes.hpp"
#include "engine/cache/quantized_cache.hpp"

namespace {

using namespace dgap;
using namespace dgap::engine;

void run(char** argv) {
  const auto job = nlohmann::json::parse(base::read_file(argv[1]));
  const CacheShape shape{1, job.at("kv_heads"), job.at("head_dim"), 10000.0};
  const std::int64_t tokens = job.at("tokens"), prefix_length = job.at("prefix"),
                     block = job.at("block");
  const std::int64_t width = std::int64_t{shape.kv_heads} * shape.head_dim;
  const std::string bytes = base::read_file(argv[2]);
  std::vector<float> x(bytes.size() / sizeof(float));
  std::memcpy(x.data(), bytes.data(), bytes.size());
  const auto prefix = make_exact_cache(shape, ExactCacheType::f16, prefix_length, false);
  prefix->append(0, prefix_length, x.data(), x.data());
  QuantizedCache cache(schemas::scheme_from_json(job.at("scheme"), "job"), *prefix, prefix_length);
  for (std::int64_t t = prefix_length; t < tokens;) {
    const std::int64_t rows = std::min({block, tokens - t, cache.block_limit()});
    cache.append(0, rows, x.data() + t * width, x.data() + t * width);
    t += rows;
  }
  std::ofstream out(argv[3], std::ios::binary);
  const auto write = [&](auto span) {
    out.write(reinterpret_cast<const char*>(span.data()),
              static_cast<std::streamsize>(span.size_bytes()));
  };
  const auto& codes = dynamic_cast<const HfCodes&>(*cache.layer_values(0));
  write(codes.codes()), write(codes.scales());
  std::vector<float> reads(static_cast<std::size_t>(codes.size() * shape.head_dim));
  HfCodes settled = codes;
  settled.begin_block();
  for (int head = 0; head < shape.kv_heads; ++head) {
    settled.read(head, 0, codes.size(), reads.data());
    write(std::span<const float>(reads));
  }
  if (!out) throw std::runtime_error("cannot write the output");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: probe_hf JOB VALUES OUT\n"), 2;
  try {
    run(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "probe_hf: %s\n", error.what());
    return 1;
  }
}
