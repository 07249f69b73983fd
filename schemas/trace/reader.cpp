#include "schemas/trace/reader.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/text.hpp"
#include "schemas/trace/hdf5_input.hpp"
#include "schemas/trace/layout.hpp"

namespace dgap::schemas {
namespace {

using hdf5::Input;
using trace::Content;
using trace::Dataset;
using trace::Extents;

void check_format(const Input& file) {
  const std::string format = file.text_attribute("", "format");
  if (format != trace::kFormat)
    file.refuse("@format", "is \"" + format + "\", expected \"dgap-trace\"");
  const std::string version = file.text_attribute("", "format_version");
  int major = 0;
  const auto parsed = std::from_chars(version.data(), version.data() + version.size(), major);
  if (parsed.ec != std::errc() || parsed.ptr == version.data() + version.size() ||
      *parsed.ptr != '.') {
    file.refuse("@format_version",
                "is \"" + version + "\", expected a version like " + trace::kVersion);
  }
  if (major != trace::kMajor) {
    file.refuse("@format_version", "is " + version + ", and this program reads " + trace::kVersion +
                                       " and later 1.x; use a newer dgap");
  }
}

TraceHeader read_header(const Input& file) {
  check_format(file);
  TraceHeader header;
  trace::for_each_text_attribute(
      header, [&](const char* name, std::string& value) { value = file.text_attribute("", name); });
  header.vocab_size = file.integer_attribute("", "vocab_size");
  header.hidden_size = file.integer_attribute("", "hidden_size");
  return header;
}

std::int64_t rows_of(const Input& file, const std::string& name, std::size_t rank) {
  const std::vector<std::int64_t> shape = file.shape(name);
  if (shape.size() != rank)
    file.refuse(name, "has " + std::to_string(shape.size()) + " dimensions, expected " +
                          std::to_string(rank));
  return shape.front();
}

Extents read_extents(const Input& file, const TraceHeader& header) {
  Extents e;
  e.units = rows_of(file, "units/context", 1);
  e.tokens = rows_of(file, "tokens", 1);
  e.steps = rows_of(file, "steps/unit", 1);
  e.candidates = rows_of(file, "reference/candidates/ids", 1);
  rows_of(file, "reference/top/ids", 2);
  e.top = file.shape("reference/top/ids")[1];
  e.hidden = header.hidden_size;
  e.vocab = header.vocab_size;
  return e;
}

/// Fills columns of one group, leaving out what is not asked for or not there.
class ColumnReader {
 public:
  ColumnReader(const Input& file, std::string group, const TraceSelection& selection)
      : file_(file), group_(std::move(group)), selection_(selection) {}

  template <class T>
  void operator()(const Dataset& dataset, std::vector<T>& column) const {
    const std::string name = group_ + "/" + dataset.name;
    if (!wanted(dataset.content, name)) return;
    if constexpr (std::is_same_v<T, std::string>) {
      column = file_.texts(name, dataset.rows);
    } else {
      column = file_.column<T>(name, dataset.rows, dataset.width);
    }
  }

 private:
  bool wanted(Content content, const std::string& name) const {
    switch (content) {
      case Content::candidates:
        return selection_.reference_candidates;
      case Content::served:
        return file_.exists(name);
      case Content::hidden:
        return selection_.hidden && file_.exists(name);
      case Content::logits:
        return selection_.logits && file_.exists(name);
      default:
        return true;
    }
  }

  const Input& file_;
  std::string group_;
  const TraceSelection& selection_;
};

/// Names in the order of the configuration.
std::vector<std::string> precision_names(const Input& file) {
  std::vector<std::pair<std::int64_t, std::string>> indexed;
  for (std::string& name : file.groups_in("precisions")) {
    const std::int64_t index = file.integer_attribute("precisions/" + name, "index");
    indexed.emplace_back(index, std::move(name));
  }
  std::sort(indexed.begin(), indexed.end());
  std::vector<std::string> names;
  for (auto& [index, name] : indexed) names.push_back(std::move(name));
  return names;
}

std::vector<std::string> select_precisions(const Input& file, const TraceSelection& selection) {
  std::vector<std::string> present = precision_names(file);
  if (selection.precisions.empty()) return present;
  for (const std::string& name : selection.precisions) {
    if (std::find(present.begin(), present.end(), name) == present.end()) {
      const std::vector<std::string_view> known(present.begin(), present.end());
      file.refuse("precisions/" + name, "is not in this trace, which has " + base::join(known));
    }
  }
  return selection.precisions;
}

PrecisionInfo read_info(const Input& file, const std::string& name) {
  const std::string group = "precisions/" + name;
  PrecisionInfo info;
  info.name = name;
  info.scheme_json = file.text_attribute(group, "scheme");
  trace::for_each_number_attribute(info, [&](const char* attribute, double& value) {
    value = file.number_attribute(group, attribute);
  });
  return info;
}

}  // namespace

TracePart read_trace_part(const std::filesystem::path& path, const TraceSelection& selection) {
  const hdf5::Session session;
  const Input file(path);
  TracePart part;
  part.header = read_header(file);
  part.config_yaml = file.text("config");
  const Extents extents = read_extents(file, part.header);
  part.top = static_cast<std::int32_t>(std::min<std::int64_t>(extents.top, INT32_MAX));
  trace::UnitColumns units;
  trace::for_each_unit_column(units, extents, ColumnReader(file, "units", selection));
  part.units = trace::from_columns(std::move(units));
  part.tokens = file.column<std::int32_t>("tokens", extents.tokens, 0);
  trace::for_each_step_column(part, extents, ColumnReader(file, "steps", selection));
  trace::for_each_reference(part.reference, extents, ColumnReader(file, "reference", selection));
  for (const std::string& name : select_precisions(file, selection)) {
    part.precisions.push_back(read_info(file, name));
    trace::for_each_precision(part.columns.emplace_back(), extents,
                              ColumnReader(file, "precisions/" + name, selection));
  }
  const std::string problem = trace::problem_of(part);
  if (!problem.empty()) throw base::IoError(path.string() + ": " + problem);
  return part;
}

trace::PartSummary trace::read_summary(const std::filesystem::path& path) {
  const hdf5::Session session;
  const Input file(path);
  PartSummary summary;
  summary.header = read_header(file);
  summary.precisions = precision_names(file);
  for (const std::string& name : summary.precisions) {
    summary.schemes.push_back(file.text_attribute("precisions/" + name, "scheme"));
  }
  const std::int64_t units = rows_of(file, "units/context", 1);
  summary.unit_splits = file.texts("units/split", units);
  summary.unit_sources = file.texts("units/source", units);
  summary.unit_books = file.texts("units/book", units);
  summary.steps = rows_of(file, "steps/unit", 1);
  return summary;
}

}  // namespace dgap::schemas
