// The engine's matrix products against oneDNN's on the shapes of a model, same threads, one run.
//
//   onednn_products MODEL [ROWS [bf16|f32]]
//
// Both get packed weights and rows in their own layouts, and split the work over oneTBB: ours by
// panels, oneDNN's (built on OpenMP, here with one OpenMP thread) by blocks of rows. Rates count
// 2 * rows * outputs * inputs operations; the best of some repetitions. The last lines of a compute
// type weigh every product by how often it occurs in a pass through the model, without the output
// matrix (a prefill) and with it.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

#include <oneapi/tbb/parallel_for.h>
#include <dnnl.hpp>

#include "base/random.hpp"
#include "engine/backend/cpu/matmul.hpp"
#include "engine/formats/open_weights.hpp"

namespace {

using namespace dgap;
using Type = dnnl::memory::data_type;

double best_seconds(const auto& work) {
  double best = 1e9;
  for (int i = 0; i < 12; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

std::vector<float> random_values(std::int64_t n) {
  base::Random random(1);
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) v = static_cast<float>(random.uniform() - 0.5);
  return x;
}

/// y[rows, outputs] = x W^T in blocks of rows.
class OneDnnProduct {
 public:
  OneDnnProduct(Type type, std::int64_t rows, std::int64_t outputs, std::int64_t inputs)
      : rows_(rows), block_(rows / 2), outputs_(outputs), inputs_(inputs), type_(type) {
    const dnnl::memory::desc x({block_, inputs}, type, dnnl::memory::format_tag::ab);
    const dnnl::memory::desc any({inputs, outputs}, type, dnnl::memory::format_tag::any);
    const dnnl::memory::desc y({block_, outputs}, Type::f32, dnnl::memory::format_tag::ab);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(
        dnnl::scratchpad_mode::user);  // one per task: the library's is not for concurrent use
    omp_set_num_threads(1);
    description_ = dnnl::matmul::primitive_desc(dnnl::matmul::desc(x, any, y), attributes, engine_);
    product_ = dnnl::matmul(description_);
    weights_ = pack(random_values(outputs * inputs),
                    {{inputs, outputs}, Type::f32, dnnl::memory::format_tag::ba},
                    description_.weights_desc());
    x_ = pack(random_values(rows * inputs),
              {{rows, inputs}, Type::f32, dnnl::memory::format_tag::ab},
              {{rows, inputs}, type, dnnl::memory::format_tag::ab});
    y_.reset(rows * outputs);
  }

  void run() {
    tbb::parallel_for(std::int64_t{0}, rows_ / block_, [&](std::int64_t b) {
      omp_set_num_threads(1);
      dnnl::stream stream(engine_);
      char* x = static_cast<char*>(x_.get_data_handle()) +
                b * block_ * inputs_ * (type_ == Type::f32 ? 4 : 2);
      const dnnl::memory source(description_.src_desc(), engine_, x);
      const dnnl::memory target(description_.dst_desc(), engine_,
                                y_.data() + b * block_ * outputs_);
      const dnnl::memory scratchpad(description_.scratchpad_desc(), engine_);
      product_.execute(stream, {{DNNL_ARG_SRC, source},
                                {DNNL_ARG_WEIGHTS, weights_},
                                {DNNL_ARG_DST, target},
                                {DNNL_ARG_SCRATCHPAD, scratchpad}});
      stream.wait();
    });
  }

 private:
  dnnl::memory pack(std::vector<float> values, const dnnl::memory::desc& plain,
                    const dnnl::memory::desc& packed) {
    dnnl::memory from(plain, engine_, values.data()), to(packed, engine_);
    dnnl::stream stream(engine_);
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
    return to;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::int64_t rows_, block_, outputs_, inputs_;
  Type type_;
  dnnl::matmul::primitive_desc description_;
  dnnl::matmul product_;
  dnnl::memory weights_, x_;
  engine::Buffer<float> y_;
};

double our_seconds(engine::Compute compute, std::int64_t rows, std::int64_t outputs,
                   std::int64_t inputs) {
  engine::PanelMatrix matrix(engine::product_kernel(engine::detected_isa(), compute), outputs,
                             inputs);
  const std::vector<float> weights = random_values(outputs * inputs);
  for (std::int64_t r = 0; r < outputs; ++r) matrix.set_row(r, weights.data() + r * inputs);
  engine::Activations x(compute, inputs);
  x.reserve(rows);
  const std::vector<float> values = random_values(rows * inputs);
  for (std::int64_t r = 0; r < rows; ++r) x.store(r, 0, inputs, values.data() + r * inputs);
  engine::Buffer<float> y((rows + engine::kRowStep) * outputs);
  return best_seconds([&] { engine::multiply(matrix, x, rows, y.data(), false); });
}

struct Product {
  const char* name;
  int times;  // in a pass through the model
  std::int64_t outputs, inputs;
};

void print(const char* name, const char* compute, double work, double ours, double theirs) {
  std::printf(
      "{\"product\": \"%s\", \"compute\": \"%s\", \"tflop\": %.4f, \"tflops\": %.3f, "
      "\"onednn_tflops\": %.3f, \"ratio\": %.2f}\n",
      name, compute, work, work / ours, work / theirs, theirs / ours);
}

void compare(const std::vector<Product>& products, std::int64_t rows, engine::Compute compute) {
  const bool bf16 = compute == engine::Compute::bf16;
  const char* type = bf16 ? "bf16" : "f32";
  double all_work = 0, all_ours = 0, all_theirs = 0;
  for (const Product& p : products) {
    if (&p == &products.back()) print("layers", type, all_work, all_ours, all_theirs);
    OneDnnProduct peer(bf16 ? Type::bf16 : Type::f32, rows, p.outputs, p.inputs);
    const double work = 2e-12 * static_cast<double>(rows * p.outputs * p.inputs);
    const double ours = our_seconds(compute, rows, p.outputs, p.inputs);
    const double theirs = best_seconds([&] { peer.run(); });
    print(p.name, type, work, ours, theirs);
    all_work += p.times * work, all_ours += p.times * ours, all_theirs += p.times * theirs;
  }
  print("whole_pass", type, all_work, all_ours, all_theirs);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: onednn_products MODEL [ROWS [bf16|f32]]\n");
    return 2;
  }
  const auto weights = engine::open_weights(argv[1], "auto");
  const engine::HyperParameters& p = weights->parameters();
  const std::int64_t rows = argc > 2 ? std::stol(argv[2]) : 512;
  const std::int64_t heads = p.heads * p.head_dim, kv = p.kv_heads * p.head_dim;
  const std::vector<Product> products = {
      {"query_key_value", p.layers, heads + 2 * kv, p.hidden_size},
      {"attention_output", p.layers, p.hidden_size, heads},
      {"gate_up", p.layers, 2 * p.intermediate_size, p.hidden_size},
      {"down", p.layers, p.hidden_size, p.intermediate_size},
      {"output_matrix", 1, p.vocab_size, p.hidden_size}};
  const std::string only = argc > 3 ? argv[3] : "";
  if (only != "f32") compare(products, rows, engine::Compute::bf16);
  if (only != "bf16") compare(products, rows, engine::Compute::f32);
}
