#include <nlohmann/json.hpp>
#include <set>

#include "app/describe.hpp"
#include "base/stop.hpp"
#include "schemas/trace/trace.hpp"

namespace dgap::app {
namespace {

using Json = nlohmann::ordered_json;

schemas::TraceSelection selection(bool whole) {
  schemas::TraceSelection s;
  s.reference_candidates = s.logits = s.hidden = whole;
  return s;
}

Json header_json(const schemas::TraceHeader& h) {
  return {{"producer", h.producer},
          {"producer_commit", h.producer_commit},
          {"run_id", h.run_id},
          {"model_sha256", h.model_sha256},
          {"tokenizer_sha256", h.tokenizer_sha256},
          {"vocabulary", h.vocab_size},
          {"hidden_size", h.hidden_size},
          {"compute", h.compute},
          {"cpu_isa", h.cpu_isa},
          {"decode_mode", h.decode_mode}};
}

/// What the steps of one precision sum up to.
struct Divergence {
  double kl = 0;
  std::int64_t steps = 0;
  void add(const std::vector<float>& values) {
    for (const float v : values) kl += v;
    steps += std::ssize(values);
  }
};

Json precision_json(const schemas::PrecisionInfo& p, const Divergence& d) {
  return {{"bits", {p.bits_per_element_key, p.bits_per_element_value}},
          {"mean_kl", d.steps == 0 ? 0 : d.kl / static_cast<double>(d.steps)}};
}

struct Counts {
  std::int64_t units = 0, steps = 0;
  std::set<std::string> books;
};

void count(const schemas::TracePart& part, std::map<std::string, Counts>& splits) {
  for (const schemas::TraceUnit& unit : part.units) {
    Counts& c = splits[unit.split];
    ++c.units;
    c.steps += unit.steps;
    c.books.insert(unit.book);
  }
}

Json splits_json(const std::map<std::string, Counts>& splits) {
  Json object = Json::object();
  for (const auto& [name, c] : splits)
    object[name] = {{"books", c.books.size()}, {"units", c.units}, {"steps", c.steps}};
  return object;
}

}  // namespace

Json describe_trace_part(const std::filesystem::path& file, bool whole) {
  const schemas::TracePart part = schemas::read_trace_part(file, selection(whole));
  Json answer = header_json(part.header);
  answer["top"] = part.top;
  answer["steps"] = part.steps();
  std::map<std::string, Counts> splits;
  count(part, splits);
  answer["splits"] = splits_json(splits);
  for (std::size_t i = 0; i < part.precisions.size(); ++i) {
    Divergence divergence;
    divergence.add(part.columns[i].kl);
    answer["precisions"][part.precisions[i].name] = precision_json(part.precisions[i], divergence);
  }
  return answer;
}

Json describe_traces(const std::filesystem::path& folder, bool whole) {
  const schemas::TraceSet set(folder);
  Json answer = header_json(set.header());
  answer["parts"] = set.parts();
  answer["steps"] = set.steps();
  if (!whole) {
    answer["precisions"] = set.precisions();
    return answer;
  }
  std::map<std::string, Counts> splits;
  std::vector<schemas::PrecisionInfo> precisions;  // the bits of the first part
  std::vector<Divergence> divergence(set.precisions().size());
  for (std::size_t i = 0; i < set.parts(); ++i) {
    base::throw_if_stop_requested();
    const schemas::TracePart part = set.read(i, selection(true));
    count(part, splits);
    if (i == 0) precisions = part.precisions;
    for (std::size_t p = 0; p < divergence.size(); ++p) divergence[p].add(part.columns[p].kl);
  }
  for (std::size_t p = 0; p < precisions.size(); ++p)
    answer["precisions"][precisions[p].name] = precision_json(precisions[p], divergence[p]);
  answer["splits"] = splits_json(splits);
  return answer;
}

}  // namespace dgap::app
