#include "schemas/trace/hdf5_input.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "schemas/trace/global_heap.hpp"
#include "schemas/trace/hdf5_text.hpp"

namespace dgap::schemas::hdf5 {
namespace {

// Deflate's best is 1032 : 1; fixed costs of small chunks are in the slack.
constexpr std::uint64_t kMostInflation = 1100;
constexpr std::uint64_t kSlackBytes = 1 << 16;
constexpr hsize_t kMostChunkBytes = hsize_t{1} << 26;
constexpr std::size_t kMostGroups = 4096;
constexpr std::size_t kMostNameBytes = 1024;

std::uint64_t checked_size(const std::filesystem::path& path) {
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(path, error);
  if (error) throw base::IoError(path.string() + ": cannot be opened: " + error.message());
  return bytes;
}

std::string describe(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

herr_t collect_name(hid_t, const char* name, const H5L_info_t*, void* data) {
  auto& names = *static_cast<std::vector<std::string>*>(data);
  names.emplace_back(name);
  return names.size() > kMostGroups || names.back().size() > kMostNameBytes ? -1 : 0;
}

}  // namespace

Input::Input(const std::filesystem::path& path)
    : path_(path.string()), file_bytes_(checked_size(path)), file_(open_file(path)) {}

void Input::refuse(const std::string& name, const std::string& what) const {
  throw base::IoError(where(name) + ": " + what);
}

bool Input::exists(const std::string& name) const {
  for (std::size_t slash = name.find('/');; slash = name.find('/', slash + 1)) {
    const std::string prefix = name.substr(0, slash);
    if (H5Lexists(file_.get(), prefix.c_str(), H5P_DEFAULT) <= 0) return false;
    if (slash == std::string::npos) return true;
  }
}

Handle Input::object(const std::string& name, H5I_type_t kind) const {
  if (name.empty())
    return {H5Gopen2(file_.get(), "/", H5P_DEFAULT), H5Gclose, where("/"), "cannot be opened"};
  for (std::size_t slash = name.find('/');; slash = name.find('/', slash + 1)) {
    const std::string prefix = name.substr(0, slash);
    H5L_info_t info;
    if (H5Lexists(file_.get(), prefix.c_str(), H5P_DEFAULT) <= 0) refuse(name, "is missing");
    check(H5Lget_info(file_.get(), prefix.c_str(), &info, H5P_DEFAULT), where(name),
          "cannot be examined");
    if (info.type != H5L_TYPE_HARD)
      refuse(name, "is a soft or external link, which traces never are");
    if (slash == std::string::npos) break;
  }
  Handle found(H5Oopen(file_.get(), name.c_str(), H5P_DEFAULT), H5Oclose, where(name),
               "cannot be opened");
  if (H5Iget_type(found.get()) != kind) {
    refuse(name, kind == H5I_DATASET ? "is not a dataset" : "is not a group");
  }
  return found;
}

std::vector<std::string> Input::groups_in(const std::string& name) const {
  const Handle group = object(name, H5I_GROUP);
  std::vector<std::string> names;
  hsize_t position = 0;
  check(H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, &position, collect_name, &names),
        where(name), "cannot be listed");
  return names;
}

void Input::check_filters(const Handle& properties, const std::string& name) const {
  const int count = H5Pget_nfilters(properties.get());
  if (count < 0) fail(where(name), "filters cannot be examined");
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, config = 0;
    std::size_t parameters = 0;
    char label[64] = {};
    const H5Z_filter_t id = H5Pget_filter2(properties.get(), static_cast<unsigned>(i), &flags,
                                           &parameters, nullptr, sizeof label - 1, label, &config);
    if (id < 0) fail(where(name), "filters cannot be examined");
    if (H5Zfilter_avail(id) <= 0) {
      refuse(
          name,
          "was written with filter " + std::to_string(id) + " (" + std::string(label) +
              "), which this HDF5 does not have; install its plug-in and set HDF5_PLUGIN_PATH, or "
              "rewrite the file with h5repack -f GZIP=1");
    }
  }
}

/// Before anything is allocated: the data lie in this file, and are not more than it can hold.
void Input::check_storage(const Handle& set, const Handle& properties,
                          const std::string& name) const {
  const H5D_layout_t layout = H5Pget_layout(properties.get());
  if (layout == H5D_VIRTUAL || H5Pget_external_count(properties.get()) != 0) {
    refuse(name, "keeps its data in another file, which traces never do");
  }
  const Handle space(H5Dget_space(set.get()), H5Sclose, where(name), "cannot be examined");
  const Handle type(H5Dget_type(set.get()), H5Tclose, where(name), "cannot be examined");
  const hssize_t points = H5Sget_simple_extent_npoints(space.get());
  const std::size_t value_bytes = H5Tget_size(type.get());
  if (points < 0 || value_bytes == 0) refuse(name, "has no extent");
  const std::uint64_t stored = H5Dget_storage_size(set.get());
  const std::uint64_t most =
      layout == H5D_CHUNKED ? std::min(stored, file_bytes_) * kMostInflation + kSlackBytes : stored;
  if (stored > file_bytes_ || static_cast<std::uint64_t>(points) > most / value_bytes) {
    refuse(name, "claims " + std::to_string(points) + " values of " + std::to_string(value_bytes) +
                     " bytes, more than its " + std::to_string(stored) + " stored bytes can hold");
  }
  if (layout != H5D_CHUNKED) return;
  hsize_t chunk[H5S_MAX_RANK];
  const int rank = H5Pget_chunk(properties.get(), H5S_MAX_RANK, chunk);
  if (rank < 0) fail(where(name), "chunks cannot be examined");
  const hsize_t limit = std::max(kMostChunkBytes, static_cast<hsize_t>(points) * value_bytes);
  hsize_t bytes = value_bytes;
  for (int i = 0; i < rank; ++i) {
    if (chunk[i] > limit / bytes) refuse(name, "has chunks that are larger than the dataset");
    bytes *= chunk[i];
  }
}

Handle Input::dataset(const std::string& name) const {
  Handle set = object(name, H5I_DATASET);
  const Handle properties(H5Dget_create_plist(set.get()), H5Pclose, where(name),
                          "cannot be examined");
  check_filters(properties, name);
  check_storage(set, properties, name);
  return set;
}

std::vector<std::int64_t> Input::shape_of(const Handle& set, const std::string& name) const {
  const Handle space(H5Dget_space(set.get()), H5Sclose, where(name), "cannot be examined");
  hsize_t extent[H5S_MAX_RANK];
  const int rank = H5Sget_simple_extent_dims(space.get(), extent, nullptr);
  if (rank < 0) fail(where(name), "cannot be examined");
  return {extent, extent + rank};
}

std::vector<std::int64_t> Input::shape(const std::string& name) const {
  return shape_of(dataset(name), name);
}

void Input::check_shape(const Handle& set, const std::vector<std::int64_t>& expected,
                        const std::string& name) const {
  const std::vector<std::int64_t> actual = shape_of(set, name);
  if (actual != expected)
    refuse(name, "has extent " + describe(actual) + ", expected " + describe(expected));
}

Handle Input::numbers(const std::string& name, std::int64_t rows, std::int64_t width, hid_t type,
                      hid_t other_order, const char* type_name) const {
  Handle set = dataset(name);
  const Handle actual(H5Dget_type(set.get()), H5Tclose, where(name), "cannot be examined");
  if (H5Tequal(actual.get(), type) <= 0 && H5Tequal(actual.get(), other_order) <= 0) {
    refuse(name, std::string("is not of ") + type_name);
  }
  check_shape(set, width > 0 ? std::vector{rows, width} : std::vector{rows}, name);
  return set;
}

void Input::read(const Handle& set, hid_t memory_type, void* out, const std::string& name) const {
  check(H5Dread(set.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out), where(name),
        "cannot be read");
}

void Input::check_heaps_for(const Handle& type) const {
  if (heaps_checked_ || !is_variable_text(type)) return;
  check_global_heaps(path_);
  heaps_checked_ = true;
}

std::vector<std::string> Input::texts_of(const Handle& set, std::int64_t count,
                                         const std::string& name) const {
  const Handle type(H5Dget_type(set.get()), H5Tclose, where(name), "cannot be examined");
  check_heaps_for(type);
  return read_texts(set, type, static_cast<std::size_t>(count), where(name));
}

std::vector<std::string> Input::texts(const std::string& name, std::int64_t rows) const {
  const Handle set = dataset(name);
  check_shape(set, {rows}, name);
  return texts_of(set, rows, name);
}

std::string Input::text(const std::string& name) const {
  const Handle set = dataset(name);
  check_shape(set, {}, name);
  return texts_of(set, 1, name).front();
}

Handle Input::attribute(const std::string& object_name, const char* name) const {
  const std::string here = object_name + "@" + name;
  const Handle owner = object(object_name, H5I_GROUP);
  if (H5Aexists(owner.get(), name) <= 0) refuse(here, "attribute is missing");
  Handle found(H5Aopen(owner.get(), name, H5P_DEFAULT), H5Aclose, where(here),
               "attribute cannot be opened");
  const Handle space(H5Aget_space(found.get()), H5Sclose, where(here),
                     "attribute cannot be examined");
  if (H5Sget_simple_extent_npoints(space.get()) != 1) refuse(here, "attribute is not one value");
  return found;
}

std::string Input::text_attribute(const std::string& object_name, const char* name) const {
  const std::string here = object_name + "@" + name;
  const Handle found = attribute(object_name, name);
  const Handle type(H5Aget_type(found.get()), H5Tclose, where(here),
                    "attribute cannot be examined");
  check_heaps_for(type);
  return read_attribute_text(found, type, where(here));
}

std::int64_t Input::integer_attribute(const std::string& object_name, const char* name) const {
  const std::string here = object_name + "@" + name;
  const Handle found = attribute(object_name, name);
  const Handle type(H5Aget_type(found.get()), H5Tclose, where(here),
                    "attribute cannot be examined");
  if (H5Tget_class(type.get()) != H5T_INTEGER) refuse(here, "attribute is not an integer");
  std::int64_t value = 0;
  check(H5Aread(found.get(), H5T_NATIVE_INT64, &value), where(here), "attribute cannot be read");
  return value;
}

double Input::number_attribute(const std::string& object_name, const char* name) const {
  const std::string here = object_name + "@" + name;
  const Handle found = attribute(object_name, name);
  const Handle type(H5Aget_type(found.get()), H5Tclose, where(here),
                    "attribute cannot be examined");
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) refuse(here, "attribute is not a number");
  double value = 0.0;
  check(H5Aread(found.get(), H5T_NATIVE_DOUBLE, &value), where(here), "attribute cannot be read");
  return value;
}

}  // namespace dgap::schemas::hdf5
