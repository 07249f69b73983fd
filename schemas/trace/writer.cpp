#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "base/files.hpp"
#include "schemas/trace/hdf5_memory_file.hpp"
#include "schemas/trace/hdf5_output.hpp"

namespace dgap::schemas {
namespace {

using hdf5::Handle;
using trace::Content;
using trace::Dataset;
using trace::Extents;

/// `<path>.partial`, created by us and nobody else, gone again unless it was moved into place.
class PartialFile {
 public:
  explicit PartialFile(const std::filesystem::path& path) : final_(path), partial_(path) {
    partial_ += ".partial";
    fd_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd_ < 0 && errno == EEXIST) {
      throw base::IoError(partial_.string() +
                          ": exists already: another process is writing it, or was killed while it "
                          "did; remove it if no process is left");
    }
    if (fd_ < 0) base::throw_errno(partial_.string(), "cannot be created");
    // Looked at only now that nobody else can be writing it.
    if (std::error_code ignored; std::filesystem::exists(final_, ignored)) {
      discard();
      throw base::IoError(final_.string() +
                          ": exists already and is never overwritten; remove it to write it again");
    }
  }
  ~PartialFile() { discard(); }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void write(std::span<const unsigned char> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) base::throw_errno(partial_.string(), "cannot be written");
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  void move_into_place() {
    if (::fsync(fd_) != 0) base::throw_errno(partial_.string(), "cannot be synced");
    if (::close(std::exchange(fd_, -1)) != 0)
      base::throw_errno(partial_.string(), "cannot be closed");
    base::rename_durably(partial_, final_);
    moved_ = true;
  }

 private:
  void discard() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    if (!std::exchange(moved_, true)) ::unlink(partial_.c_str());
  }

  std::filesystem::path final_, partial_;
  int fd_ = -1;
  bool moved_ = false;
};

/// Columns of one group; "top/ids" opens the subgroup `top` when it first comes up.
class ColumnGroup {
 public:
  ColumnGroup(const Handle& parent, const char* name, const std::string& where)
      : where_(where + "/" + name), group_(hdf5::create_group(parent, name, where)) {}

  template <class T>
  void operator()(const Dataset& dataset, const std::vector<T>& column) {
    const Content content = dataset.content;
    const bool optional =
        content == Content::served || content == Content::hidden || content == Content::logits;
    if (column.empty() && optional) return;
    const std::string_view name = dataset.name;
    const std::size_t slash = name.find('/');
    if (slash == std::string_view::npos) return hdf5::write_column(group_, dataset, column, where_);
    const std::string folder(name.substr(0, slash));
    if (std::find(folders_.begin(), folders_.end(), folder) == folders_.end()) {
      hdf5::create_group(group_, folder.c_str(), where_);
      folders_.push_back(folder);
    }
    hdf5::write_column(group_, dataset, column, where_);
  }
  const Handle& group() const { return group_; }
  const std::string& where() const { return where_; }

 private:
  std::string where_;
  Handle group_;
  std::vector<std::string> folders_;
};

bool is_precision_name(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), allowed) &&
         name.find_first_not_of('.') != std::string::npos;
}

void check_for_writing(const std::filesystem::path& path, const TracePart& part) {
  std::string problem = trace::problem_of(part);
  for (const PrecisionInfo& p : part.precisions) {
    if (problem.empty() && !is_precision_name(p.name)) {
      problem =
          "precision \"" + p.name + "\": names are of A-Z a-z 0-9 . _ - and not of dots alone";
    }
  }
  if (problem.empty() && part.reference.candidate_first.empty())
    problem = "reference/candidates/first: is missing";
  if (!problem.empty()) throw base::FailedError(path.string() + ": not written: " + problem);
}

void write_header(const Handle& file, const TracePart& part, const std::string& where) {
  hdf5::write_text_attribute(file, "format", trace::kFormat, where);
  hdf5::write_text_attribute(file, "format_version", trace::kVersion, where);
  trace::for_each_text_attribute(part.header, [&](const char* name, const std::string& text) {
    hdf5::write_text_attribute(file, name, text, where);
  });
  hdf5::write_attribute(file, "vocab_size", part.header.vocab_size, where);
  hdf5::write_attribute(file, "hidden_size", part.header.hidden_size, where);
  hdf5::write_text(file, "config", part.config_yaml, "the resolved configuration, YAML", where);
}

void write_contents(const Handle& file, const TracePart& part, const std::string& where) {
  const Extents extents{static_cast<std::int64_t>(part.units.size()),
                        static_cast<std::int64_t>(part.tokens.size()),
                        part.steps(),
                        part.top,
                        static_cast<std::int64_t>(part.reference.candidate_ids.size()),
                        part.header.hidden_size,
                        part.header.vocab_size};
  write_header(file, part, where);
  const trace::UnitColumns units = trace::to_columns(part.units);
  trace::for_each_unit_column(units, extents, ColumnGroup(file, "units", where));
  hdf5::write_column(
      file, Dataset{"tokens", extents.tokens, 0, "1", "ids of every unit, prefix and targets"},
      part.tokens, where);
  trace::for_each_step_column(part, extents, ColumnGroup(file, "steps", where));
  trace::for_each_reference(part.reference, extents, ColumnGroup(file, "reference", where));
  const Handle precisions = hdf5::create_group(file, "precisions", where);
  for (std::size_t i = 0; i < part.precisions.size(); ++i) {
    const PrecisionInfo& info = part.precisions[i];
    ColumnGroup group(precisions, info.name.c_str(), where + "/precisions");
    hdf5::write_attribute(group.group(), "index", static_cast<std::int64_t>(i), group.where());
    hdf5::write_text_attribute(group.group(), "scheme", info.scheme_json, group.where());
    trace::for_each_number_attribute(info, [&](const char* name, double value) {
      hdf5::write_attribute(group.group(), name, value, group.where());
    });
    trace::for_each_precision(part.columns[i], extents, std::ref(group));
  }
}

}  // namespace

void write_trace_part(const std::filesystem::path& path, const TracePart& part) {
  check_for_writing(path, part);
  PartialFile partial(path);
  const hdf5::Session session;
  hdf5::MemoryFile file(path.string());
  write_contents(file.root(), part, path.string() + ":");
  partial.write(file.close());
  partial.move_into_place();
}

}  // namespace dgap::schemas
