// probe_weights MODEL OUTPUT: all tensors of a model as f32, one after the other: embedding, per
// layer the tensors in the order of kLayerRoles (those that it has), output norm, and the output
// matrix where it has one.
#include <cstdio>
#include <fstream>

#include "base/error.hpp"
#include "engine/formats/open_weights.hpp"

using dgap::engine::WeightRole;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const auto source = dgap::engine::open_weights(argv[1], "auto");
    std::ofstream out(argv[2], std::ios::binary);
    const auto put = [&](const std::vector<float>& values) {
      out.write(reinterpret_cast<const char*>(values.data()),
                static_cast<std::streamsize>(values.size() * sizeof(float)));
    };
    put(read_weights(*source, WeightRole::embedding));
    for (int i = 0; i < source->parameters().layers; ++i)
      for (const WeightRole role : dgap::engine::kLayerRoles) put(read_weights(*source, role, i));
    put(read_weights(*source, WeightRole::output_norm));
    put(read_weights(*source, WeightRole::output_matrix));
  } catch (const dgap::base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
