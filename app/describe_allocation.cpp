#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/describe.hpp"
#include "schemas/results/allocations.hpp"

namespace dgap::app {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::size_t kTopHeads = 16;

std::string nat(double value) { return fmt::format("{:.4f}", value); }

/// A head with its figures.
struct Head {
  std::string name;
  double gain_nll, gain_kl, cost_nll, cost_kl;
};

std::vector<Head> heads_of(const schemas::Sensitivity& s) {
  std::vector<Head> heads;
  for (const auto& [tensor, t] : s.tensors) {
    for (std::size_t l = 0; l < t.gain_nll.size(); ++l) {
      for (std::size_t h = 0; h < t.gain_nll[l].size(); ++h)
        heads.push_back({fmt::format("{} layer {} head {}", tensor, l, h), t.gain_nll[l][h],
                         t.gain_kl[l][h], t.cost_nll[l][h], t.cost_kl[l][h]});
    }
  }
  return heads;
}

Json top_heads(const schemas::Sensitivity& s) {
  std::vector<Head> heads = heads_of(s);
  std::stable_sort(heads.begin(), heads.end(), [](const Head& a, const Head& b) {
    return a.gain_nll + a.gain_kl > b.gain_nll + b.gain_kl;
  });
  heads.resize(std::min(heads.size(), kTopHeads));
  Json list = Json::object();
  for (const Head& h : heads) {
    list[h.name] = fmt::format("spared: answers {}, book KL {}; quantised alone: {}, {}",
                               nat(h.gain_nll), nat(h.gain_kl), nat(h.cost_nll), nat(h.cost_kl));
  }
  return list;
}

double sum(const std::vector<double>& row) {
  double total = 0;
  for (const double v : row) total += v;
  return total;
}

Json by_layer(const schemas::Sensitivity& s) {
  Json table = Json::object();
  for (int layer = 0; layer < s.layers; ++layer) {
    const auto l = static_cast<std::size_t>(layer);
    std::string row;
    for (const auto& [tensor, t] : s.tensors) {
      row += fmt::format("{}{}: spared {} / {}, alone {} / {}", row.empty() ? "" : "; ", tensor,
                         nat(sum(t.gain_nll[l])), nat(sum(t.gain_kl[l])), nat(sum(t.cost_nll[l])),
                         nat(sum(t.cost_kl[l])));
    }
    table[fmt::format("layer {}", layer)] = row;
  }
  return table;
}

Json loss(const schemas::AllocationLoss& l) {
  return {{"answers_nll", l.nll},
          {"tokens_right", l.token},
          {"answers_right", l.exact},
          {"book_kl", l.kl}};
}

Json point(const schemas::AllocationPoint& p) {
  Json object = {{"bits_per_element", p.bits}, {"tensors", p.parts}};
  object.update(loss(p.loss));
  return object;
}

/// The plot that the stage wrote beside a result, where it is.
void add_plot(Json& answer, fs::path file) {
  std::error_code missing;
  if (fs::exists(file.replace_extension(".svg"), missing)) answer["plot"] = file.string();
}

}  // namespace

Json describe_sensitivity(const fs::path& file) {
  const schemas::Sensitivity s = schemas::read_sensitivity(file);
  Json answer = {{"base", s.base},
                 {"spared_bits", s.spared_bits},
                 {"prompts", s.prompts},
                 {"sites", s.sites},
                 {"exact_cache", loss(s.exact)},
                 {"quantized", loss(s.quantized)},
                 {"top_heads", top_heads(s)},
                 {"by_layer", by_layer(s)}};
  add_plot(answer, file);
  return answer;
}

Json describe_allocation_results(const fs::path& file) {
  const schemas::AllocationResults r = schemas::read_allocation_results(file);
  Json answer = {{"base", r.base},
                 {"name", r.name},
                 {"estimator", r.estimator},
                 {"exact_cache", loss(r.exact)},
                 {"quantized", point(r.quantized)},
                 {"allocated", point(r.allocated)}};
  for (const auto& [name, p] : r.estimators) answer["estimators"][name] = point(p);
  for (std::size_t i = 0; i < r.random.size(); ++i)
    answer["random"][std::to_string(i)] = point(r.random[i]);
  for (const schemas::AllocationPoint& p : r.curve)
    answer["curve"][fmt::format("{:.3f}", p.bits)] = point(p);
  add_plot(answer, file);
  return answer;
}

}  // namespace dgap::app
