#include "schemas/results/allocations.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "schemas/results/json_file.hpp"
#include "schemas/scheme/allocation.hpp"

namespace dgap::schemas {
namespace {

using nlohmann::json;

constexpr std::int64_t kMost = 1 << 24;

json to_json(const AllocationLoss& loss) {
  return {{"nll", loss.nll}, {"kl", loss.kl}, {"token", loss.token}, {"exact", loss.exact}};
}

AllocationLoss loss_from(const ResultObject& object) {
  const AllocationLoss loss = {object.number_or_nan("nll"), object.number_or_nan("kl"),
                               object.number_or_nan("token"), object.number_or_nan("exact")};
  object.finish();
  return loss;
}

json to_json(const AllocationPoint& point) {
  return {{"bits", point.bits}, {"parts", point.parts}, {"loss", to_json(point.loss)}};
}

AllocationPoint point_from(const ResultObject& object) {
  AllocationPoint point;
  point.bits = object.number("bits");
  point.parts = static_cast<int>(object.integer("parts", 0, kMost));
  point.loss = loss_from(object.object("loss"));
  object.finish();
  return point;
}

json to_json(const std::vector<AllocationPoint>& points) {
  json list = json::array();
  for (const AllocationPoint& point : points) list.push_back(to_json(point));
  return list;
}

std::vector<AllocationPoint> points_from(const std::vector<ResultObject>& objects) {
  std::vector<AllocationPoint> points;
  for (const ResultObject& object : objects) points.push_back(point_from(object));
  return points;
}

HeadTable table_from(const ResultObject& object, const char* key, int layers, int kv_heads) {
  HeadTable table = object.tables_or_nan(key);
  const bool fits = std::ssize(table) == layers &&
                    std::all_of(table.begin(), table.end(),
                                [&](const auto& row) { return std::ssize(row) == kv_heads; });
  if (!fits) object.fail(key, "is not a table of layers and kv_heads");
  return table;
}

}  // namespace

void write_sensitivity(const std::filesystem::path& file, const Sensitivity& s) {
  json tensors = json::object();
  for (const auto& [name, t] : s.tensors) {
    tensors[name] = {{"cost_nll", t.cost_nll},
                     {"cost_kl", t.cost_kl},
                     {"gain_nll", t.gain_nll},
                     {"gain_kl", t.gain_kl}};
  }
  write_json_file(file, {{"version", 1},
                         {"key", s.key},
                         {"base", s.base},
                         {"layers", s.layers},
                         {"kv_heads", s.kv_heads},
                         {"spared_bits", s.spared_bits},
                         {"prompts", s.prompts},
                         {"sites", s.sites},
                         {"exact", to_json(s.exact)},
                         {"quantized", to_json(s.quantized)},
                         {"tensors", tensors}});
}

Sensitivity read_sensitivity(const std::filesystem::path& file) {
  const json value = read_json_file(file);
  const ResultObject root(value, file.string() + ":");
  Sensitivity s;
  root.integer("version", 1, 1);
  s.key = root.text("key");
  s.base = root.text("base");
  s.layers = static_cast<int>(root.integer("layers", 1, 4096));
  s.kv_heads = static_cast<int>(root.integer("kv_heads", 1, 4096));
  s.spared_bits = static_cast<int>(root.integer("spared_bits", 1, 16));
  s.prompts = static_cast<int>(root.integer("prompts", 0, kMost));
  s.sites = static_cast<int>(root.integer("sites", 0, kMost));
  s.exact = loss_from(root.object("exact"));
  s.quantized = loss_from(root.object("quantized"));
  const ResultObject tensors = root.object("tensors");
  for (const std::string& name : tensors.keys()) {
    if (name != "key" && name != "value") tensors.fail(name, "is neither key nor value");
    const ResultObject one = tensors.object(name.c_str());
    TensorSensitivity& t = s.tensors[name];
    t.cost_nll = table_from(one, "cost_nll", s.layers, s.kv_heads);
    t.cost_kl = table_from(one, "cost_kl", s.layers, s.kv_heads);
    t.gain_nll = table_from(one, "gain_nll", s.layers, s.kv_heads);
    t.gain_kl = table_from(one, "gain_kl", s.layers, s.kv_heads);
    one.finish();
  }
  root.finish();
  return s;
}

void write_allocation_results(const std::filesystem::path& file, const AllocationResults& r) {
  json estimators = json::object();
  for (const auto& [name, point] : r.estimators) estimators[name] = to_json(point);
  write_json_file(file, {{"version", 1},
                         {"base", r.base},
                         {"name", r.name},
                         {"estimator", r.estimator},
                         {"budget", r.budget},
                         {"floor", r.floor},
                         {"exact", to_json(r.exact)},
                         {"quantized", to_json(r.quantized)},
                         {"allocated", to_json(r.allocated)},
                         {"estimators", estimators},
                         {"random", to_json(r.random)},
                         {"curve", to_json(r.curve)}});
}

AllocationResults read_allocation_results(const std::filesystem::path& file) {
  const json value = read_json_file(file);
  const ResultObject root(value, file.string() + ":");
  AllocationResults r;
  root.integer("version", 1, 1);
  r.base = root.text("base");
  r.name = root.text("name");
  r.estimator = root.text("estimator");
  r.budget = root.number("budget");
  r.floor = root.number("floor");
  r.exact = loss_from(root.object("exact"));
  r.quantized = point_from(root.object("quantized"));
  r.allocated = point_from(root.object("allocated"));
  const ResultObject estimators = root.object("estimators");
  for (const std::string& name : estimators.keys())
    r.estimators[name] = point_from(estimators.object(name.c_str()));
  r.random = points_from(root.objects("random"));
  r.curve = points_from(root.objects("curve"));
  root.finish();
  return r;
}

Config with_allocation(Config config) {
  if (!config.allocation.wanted()) return config;
  const std::filesystem::path file = config.run_directory() / "allocation.json";
  std::error_code missing;
  if (!std::filesystem::exists(file, missing)) {
    throw base::FailedError(file.string() + ": is missing, and precision " +
                            config.allocation.name + " needs it; run `dgap allocate` first");
  }
  const auto base = std::find_if(config.precisions.begin(), config.precisions.end(),
                                 [&](const Scheme& s) { return s.name == config.allocation.base; });
  Scheme scheme = *base;
  apply(read_allocation(file, scheme), scheme);
  scheme.name = config.allocation.name;
  config.precisions.push_back(std::move(scheme));
  config.allocation = {};
  return config;
}

}  // namespace dgap::schemas
