#include <nlohmann/json.hpp>

#include "app/describe.hpp"
#include "schemas/bundle/bundle.hpp"

namespace dgap::app {
namespace {

using Json = nlohmann::ordered_json;

/// With its size in the file of weights.
Json network(const schemas::NetworkInfo& n, const schemas::Tensors& tensors) {
  std::size_t numbers = 0;
  for (const auto& [name, tensor] : tensors) {
    if (!n.tensors.empty() && name.starts_with(n.tensors + ".")) numbers += tensor.data.size();
  }
  Json object = {{"architecture", n.architecture}, {"layers", n.layers}};
  if (n.form != "candidate") object["form"] = n.form;
  if (n.heads > 0) object["heads"] = n.heads;
  if (!n.inputs.empty()) object["inputs"] = n.inputs;
  object["bytes"] = numbers * sizeof(float);
  if (n.mass) object["mass"] = true;
  return object;
}

Json precision(const schemas::PrecisionEntry& p, const schemas::Tensors& tensors) {
  Json object = {{"window", p.window},
                 {"coverage", p.coverage_mean},
                 {"mode", p.mode},
                 {"tau", p.tau},
                 {"policy", p.threshold_policy},
                 {"positive_rate", p.positive_rate},
                 {"detector", network(p.detector, tensors)},
                 {"corrector", network(p.corrector, tensors)}};
  if (p.window_mass < 1.0) object["window_mass"] = p.window_mass;
  if (p.escalate_tau) object["escalate_tau"] = *p.escalate_tau;
  if (p.online) object["online_rate"] = p.online->rate;
  return object;
}

}  // namespace

Json describe_bundle(const std::filesystem::path& folder, bool whole) {
  const auto mode = whole ? schemas::VerifyMode::full : schemas::VerifyMode::size_only;
  const schemas::Bundle bundle = schemas::read_bundle(folder, mode);
  std::size_t parameters = 0;
  for (const auto& [name, tensor] : bundle.tensors) parameters += tensor.data.size();
  const schemas::BaseModel& m = bundle.base_model;
  Json answer = {{"base_model",
                  {{"name", m.name},
                   {"license", m.license},
                   {"vocabulary", m.vocab_size},
                   {"logits_width", m.logits_width},
                   {"tokenizer_sha256", m.tokenizer_sha256},
                   {"model_sha256", m.model_sha256}}},
                 {"producer", bundle.producer_version},
                 {"producer_commit", bundle.producer_commit},
                 {"features_version", bundle.features_version},
                 {"required_features", bundle.required_features},
                 {"tensors", bundle.tensors.size()},
                 {"parameters", parameters}};
  for (const auto& [name, entry] : bundle.precisions) {
    answer["precisions"][name] = precision(entry, bundle.tensors);
  }
  return answer;
}

}  // namespace dgap::app
