#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/scheme/scheme.hpp"

/// Presets of the stacks and methods that people run: llama.cpp, vLLM, TurboQuant, KVarN,
/// KVQuant, transformers.
namespace dgap::schemas {

inline constexpr std::string_view kStackGrammar =
    "llamacpp-<type>[-<type>][-norot] with types f16, q8_0, q5_1, q5_0, q4_1, q4_0 and iq4_nl; "
    "vllm-<fp8|fp8_e5m2>[-per_head|-unscaled], vllm-<k8v4|4bit_nc|k3v4_nc|3bit_nc>; "
    "turboquant-[prod-]<b>[-centred][-R<n>] with b one of 1, 2, 2.5, 3, 3.5 and 4; "
    "kvarn-<k4v2|k4v4|k2v2>[-g<n>][-S<n>]; "
    "kvquant-nuq<b>[-<n>p][-qnorm] with b one of 2, 3 and 4, n a percentage of outliers; "
    "hf-<quanto|hqq>-<b>[-axis1][-g<n>][-R<n>]";

/// None where the name is not in that grammar. The scheme has no name yet.
std::optional<Scheme> parse_stack_preset(std::string_view name);

/// The names without options.
std::vector<std::string> stack_presets();

/// Whether the scheme's quantizers are of a kind that these presets' family has; none for families
/// of other presets.
std::optional<bool> is_of_stack(const Scheme& scheme);

}  // namespace dgap::schemas
