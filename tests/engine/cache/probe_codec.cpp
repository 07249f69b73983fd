/// Encodes and decodes rows of one head for conformance_codecs.py.
///
///   probe_codec JOBS.json ROWS.f32 OUT
///
/// JOBS: [{"tensor": {...}, "head_dim", "rows", "seed"}, ...], "tensor" as in a scheme's JSON.
/// ROWS: the jobs' rows [rows, head_dim], one job after the other. OUT, per job: i32 counts of what
/// follows (order, parameters, matrix, codes, scales, minima), u16 channel order, f32 parameters,
/// f32 rotation as its images of the unit vectors [head_dim, head_dim], u8 codes, u16 scales, u16
/// minima, f32 stored rows, f32 stored reads, f32 restored reads.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/files.hpp"
#include "engine/cache/codec.hpp"
#include "engine/cache/outliers.hpp"
#include "engine/cache/rotation.hpp"

namespace {

using namespace dgap;
using namespace dgap::engine;

class Output {
 public:
  explicit Output(const char* path) : out_(path, std::ios::binary) {}
  template <class T>
  void write(const std::vector<T>& values) {
    out_.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(T)));
  }
  bool ok() { return static_cast<bool>(out_.flush()); }

 private:
  std::ofstream out_;
};

schemas::TensorScheme tensor_of(const nlohmann::json& object, int head_dim) {
  const nlohmann::json scheme = {{"name", "job"}, {"key", object}};
  const schemas::Scheme read = schemas::scheme_from_json(scheme, "job");
  schemas::validate(read, {head_dim});
  return read.key;
}

void run_job(const nlohmann::json& job, const float* x, Output& out) {
  const int head_dim = job.at("head_dim");
  const std::int64_t rows = job.at("rows");
  const std::uint64_t seed = job.at("seed");
  const schemas::TensorScheme tensor = tensor_of(job.at("tensor"), head_dim);
  const auto codec = make_codec(tensor, head_dim, seed);
  const auto rotation = make_rotation(tensor, head_dim, seed);
  const auto width = static_cast<std::size_t>(head_dim), count = static_cast<std::size_t>(rows);
  const auto read = [&](std::int64_t from, std::int64_t to, float* to_rows) {
    std::memcpy(to_rows, x + from * head_dim,
                static_cast<std::size_t>((to - from) * head_dim) * sizeof(float));
  };
  const Outliers outliers(tensor, head_dim, 0, rows, read);
  std::vector<float> stored(x, x + rows * head_dim);
  outliers.first(rows, stored.data());
  if (rotation) rotation->apply(rows, stored.data());
  const auto parameters =
      codec->calibrate(0, rows, [&](std::int64_t from, std::int64_t to, float* to_rows) {
        std::memcpy(to_rows, stored.data() + from * head_dim,
                    static_cast<std::size_t>((to - from) * head_dim) * sizeof(float));
      });
  std::vector<float> matrix;
  if (rotation) {
    matrix.assign(width * width, 0.0f);
    for (std::size_t c = 0; c < width; ++c) matrix[c * width + c] = 1.0f;
    rotation->apply(head_dim, matrix.data());
  }
  const Codec::Layout& layout = codec->layout();
  const std::size_t steps = count / static_cast<std::size_t>(layout.step);
  std::vector<std::uint8_t> codes(count * layout.row_bytes);
  std::vector<std::uint16_t> scales(steps * layout.scales), minima(steps * layout.minima);
  codec->encode(parameters, rows, stored.data(), codes.data(), scales.data(), minima.data());
  std::vector<float> reads(stored.size());
  codec->decode(parameters, 0, rows, codes.data(), scales.data(), minima.data(), reads.data());
  const auto size = [](const auto& values) { return static_cast<std::int32_t>(values.size()); };
  out.write(std::vector<std::int32_t>{size(outliers.order()), size(parameters), size(matrix),
                                      size(codes), size(scales), size(minima)});
  out.write(outliers.order()), out.write(parameters), out.write(matrix);
  out.write(codes), out.write(scales), out.write(minima), out.write(stored), out.write(reads);
  if (rotation) rotation->undo(rows, reads.data());
  outliers.back(rows, reads.data());
  out.write(reads);
}

void run(char** argv) {
  const auto jobs = nlohmann::json::parse(base::read_file(argv[1]));
  const std::string bytes = base::read_file(argv[2]);
  std::vector<float> x(bytes.size() / sizeof(float));
  std::memcpy(x.data(), bytes.data(), x.size() * sizeof(float));
  Output out(argv[3]);
  std::size_t at = 0;
  for (const auto& job : jobs) {
    run_job(job, x.data() + at, out);
    at += job.at("rows").get<std::size_t>() * job.at("head_dim").get<std::size_t>();
  }
  if (!out.ok()) throw std::runtime_error("cannot write the output");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: probe_codec JOBS ROWS OUT\n"), 2;
  try {
    run(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "probe_codec: %s\n", error.what());
    return 1;
  }
}
