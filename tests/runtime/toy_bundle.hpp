#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "schemas/bundle/bundle.hpp"
#include "tests/testing/temporary_folder.hpp"

namespace dgap::test {

/// A bundle with random networks: precisions "mlp" (threshold, mass output), "linear" (threshold,
/// no mass output), "always" (constant detector, mlp), "off", and "none" (threshold, no corrector).
schemas::Bundle toy_bundle(std::int64_t vocab_size, int window, std::uint64_t seed = 1);
/// The same and the precisions "context" (always, mlp with mass output, takes the context) and
/// "transformer" and "window" (the same with a transformer, and with a network of whole windows)
/// and "hidden" (context, tokens and hidden states).
schemas::Bundle toy_context_bundle(std::int64_t vocab_size, int window, std::uint64_t seed = 1,
                                   std::int64_t hidden_size = 64);
/// Text of a small alphabet, spread over the vocabulary, so that much of it has been there before.
std::vector<std::int32_t> toy_text(std::int64_t vocab_size, int tokens, std::uint64_t seed = 1);
/// A hidden state of the toy's 64 numbers.
std::vector<float> toy_hidden(std::uint64_t seed = 1);
void write_toy_bundle(const std::filesystem::path& directory, const schemas::Bundle& bundle);

/// Random tensors of one network, inputs -> hidden... -> outputs.
void add_network(schemas::Tensors& tensors, const std::string& prefix, int inputs,
                 std::initializer_list<int> hidden, std::uint64_t seed, int outputs = 1);

using testing::TemporaryFolder;

}  // namespace dgap::test
