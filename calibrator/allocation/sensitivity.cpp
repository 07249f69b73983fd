#include "calibrator/allocation/sensitivity.hpp"

namespace dgap::calibrator {

schemas::Sensitivity measure_sensitivity(const Bank& bank, const BitSpace& space,
                                         const std::vector<std::string>& tensors, int spared_bits,
                                         base::Progress& progress) {
  schemas::Sensitivity result;
  result.base = space.base().name;
  result.layers = space.layers(), result.kv_heads = space.kv_heads();
  result.spared_bits = spared_bits;
  for (std::size_t i = 0; i < bank.size(); ++i)
    ++(bank.is_prompt(i) ? result.prompts : result.sites);

  const int heads = space.layers() * space.kv_heads();
  progress.begin("sensitivity",
                 (2 * std::ssize(tensors) * heads + 1) * static_cast<std::int64_t>(bank.size()),
                 "decodes");
  const auto run = [&](const std::vector<schemas::Scheme>& schemes) {
    return bank.run_all(schemes, [&](std::int64_t n) { progress.advance(n); });
  };
  result.exact = bank.reference();
  result.quantized = run({space.base()}).front();
  for (const std::string& tensor : tensors) {
    std::vector<schemas::Scheme> alone, spared;
    for (int head = 0; head < heads; ++head) {
      const std::size_t part =
          space.index({head / space.kv_heads(), head % space.kv_heads(), tensor == "value"});
      Bits bits = space.all(kExactBits);
      bits[part] = kBaseBits;
      alone.push_back(space.scheme(bits));
      bits = space.all(kBaseBits);
      bits[part] = spared_bits;
      spared.push_back(space.scheme(bits));
    }
    const std::vector<AllocationLoss> cost = run(alone), gain = run(spared);
    schemas::TensorSensitivity& t = result.tensors[tensor];
    for (int head = 0; head < heads; ++head) {
      if (head % space.kv_heads() == 0) {
        for (schemas::HeadTable* table : {&t.cost_nll, &t.cost_kl, &t.gain_nll, &t.gain_kl})
          table->emplace_back();
      }
      const auto h = static_cast<std::size_t>(head);
      t.cost_nll.back().push_back(cost[h].nll - result.exact.nll);
      t.cost_kl.back().push_back(cost[h].kl);
      t.gain_nll.back().push_back(result.quantized.nll - gain[h].nll);
      t.gain_kl.back().push_back(result.quantized.kl - gain[h].kl);
    }
  }
  progress.end();
  return result;
}

}  // namespace dgap::calibrator
