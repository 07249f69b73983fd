// Reads a JSON request on stdin, answers in JSON on stdout: samples, losses and gradients (f64) of
// a trace given by its full logits, or AdamW updates. For conformance_gradients.py.
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/trainer/data.hpp"
#include "trainer/adamw.hpp"
#include "trainer/corrector_objective.hpp"
#include "trainer/detector_objective.hpp"

namespace {

using namespace dgap;
using nlohmann::json;
using runtime::kDetectorWidth;

schemas::TracePart trace_of(const json& request) {
  testing::TraceOptions options;
  options.vocab = request["vocab"];
  options.top = request["top"];
  options.units = 1;
  options.steps_per_unit = request["steps"];
  schemas::TracePart trace = testing::make_trace(options);
  trace.reference.logits = request["reference"].get<std::vector<float>>();
  trace.columns[0].logits = request["quantized"].get<std::vector<float>>();
  statistics::recompute_columns(trace, 0.95);
  return trace;
}

json objective(const trainer::Objective<double>& loss, std::int64_t steps, const json& parameters) {
  const auto at = parameters.get<std::vector<double>>();
  std::vector<double> gradient(at.size());
  double sum = 0.0;
  for (std::int32_t step = 0; step < steps; ++step) {
    sum += loss.chunk({&step, 1}, at.data(), gradient.data());
  }
  return {{"loss", sum}, {"gradient", gradient}};
}

std::vector<float> hidden_states(const trainer::Samples& samples) {
  const std::int64_t width = samples.hidden_width();
  std::vector<float> states(static_cast<std::size_t>(samples.steps * width));
  for (std::int64_t step = 0; step < samples.steps; ++step) {
    samples.hidden_state(step, states.data() + step * width);
  }
  return states;
}

json gradients(const json& request) {
  schemas::Config config = testing::make_config();
  config.corrector.objective = request["objective"];
  config.corrector.temperature = request["temperature"];
  const auto hidden = request["hidden"].get<std::vector<int>>();
  config.corrector.architecture = request["architecture"];
  config.corrector.form = request["form"];
  config.corrector.hidden = hidden;
  config.corrector.inputs = request["inputs"];
  config.corrector.rank = request["rank"];
  const json& t = request["transformer"];  // null, or [width, heads, blocks, hidden]
  if (!t.is_null()) config.corrector.transformer = {t[0], t[1], t[2], t[3]};
  const auto trace = trace_of(request);
  const auto samples = trainer::make_samples(trace, 0, config, 0.9, request["window"]);
  const auto standardisation = trainer::standardisation(samples);
  const trainer::NetworkShape detector(0, kDetectorWidth, hidden, 0);
  const trainer::CorrectorShape shape(config.corrector, samples);
  const trainer::DetectorObjective<double> detector_loss(samples, standardisation, detector,
                                                         request["positive_weight"]);
  const trainer::CorrectorObjective<double> corrector_loss(
      samples, standardisation, shape,
      {request["temperature"], request["lambda_rank"], request["lambda_reg"]});
  return {{"features", samples.features},
          {"labels", samples.label},
          {"lse", samples.lse},
          {"hidden", hidden_states(samples)},
          {"detector", objective(detector_loss, samples.steps, request["detector_parameters"])},
          {"corrector", objective(corrector_loss, samples.steps, request["corrector_parameters"])}};
}

json adamw(const json& request) {
  auto parameters = request["parameters"].get<std::vector<float>>();
  trainer::AdamW optimiser(request["decays"].get<std::vector<float>>(), request["weight_decay"]);
  for (const json& g : request["gradients"]) {
    auto gradient = g.get<std::vector<float>>();
    trainer::clip(gradient, trainer::norm(gradient), request["limit"]);
    optimiser.step(parameters, gradient, request["learning_rate"]);
  }
  return {{"parameters", parameters}};
}

}  // namespace

int main() {
  const json request = json::parse(std::cin);
  std::cout << (request.contains("gradients") ? adamw(request) : gradients(request)) << "\n";
}
