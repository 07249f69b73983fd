#include "schemas/trace/hdf5_output.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <span>

#include "base/error.hpp"
#include "base/text.hpp"
#include "schemas/trace/chunk_encoder.hpp"

namespace dgap::schemas::hdf5 {
namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;
// Level 4 and up cost several times the time for a few percent (trace-format.md, "Storage").
constexpr int kDeflateLevel = 1;

Handle untimed(hid_t property_class, const std::string& where) {
  Handle properties(H5Pcreate(property_class), H5Pclose, where, "cannot be prepared");
  check(H5Pset_obj_track_times(properties.get(), false), where, "cannot be prepared");
  return properties;
}

void check_text(const std::string& text, const std::string& where) {
  if (text.find('\0') != std::string::npos || base::valid_utf8_prefix(text) != text.size()) {
    throw base::FailedError(where + ": text with NUL bytes or invalid UTF-8 cannot be stored");
  }
}

Handle text_type(std::size_t size, const std::string& where) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, where, "type cannot be made");
  check(H5Tset_size(type.get(), size), where, "type cannot be made");
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), where, "type cannot be made");
  if (size != H5T_VARIABLE)
    check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), where, "type cannot be made");
  return type;
}

void write_scalar_attribute(const Handle& object, const char* name, hid_t memory_type,
                            hid_t file_type, const void* value, const std::string& where) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, where, "space cannot be made");
  const Handle attribute(
      H5Acreate2(object.get(), name, file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      where, "attribute cannot be made");
  check(H5Awrite(attribute.get(), memory_type, value), where, "attribute cannot be written");
}

std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t row_bytes) {
  const std::int64_t most = std::max<std::int64_t>(1, kChunkBytes / row_bytes);
  const std::int64_t chunks = std::max<std::int64_t>(1, (rows + most - 1) / most);
  return std::max<std::int64_t>(1, (rows + chunks - 1) / chunks);
}

Handle storage(int rank, const hsize_t* chunk, const std::string& where) {
  Handle properties = untimed(H5P_DATASET_CREATE, where);
  check(H5Pset_chunk(properties.get(), rank, chunk), where, "cannot be chunked");
  check(H5Pset_shuffle(properties.get()), where, "cannot be shuffled");
  check(H5Pset_deflate(properties.get(), kDeflateLevel), where, "cannot be deflated");
  check(H5Pset_fletcher32(properties.get()), where, "cannot be checksummed");
  return properties;
}

/// Encodes all chunks in parallel and writes them in order.
void write_chunks(const Handle& set, std::span<const unsigned char> bytes, std::size_t chunk_bytes,
                  std::size_t value_bytes, std::int64_t chunk_rows, const std::string& where) {
  std::vector<std::vector<unsigned char>> chunks((bytes.size() + chunk_bytes - 1) / chunk_bytes);
  tbb::parallel_for(std::size_t{0}, chunks.size(), [&](std::size_t i) {
    const auto part =
        bytes.subspan(i * chunk_bytes, std::min(chunk_bytes, bytes.size() - i * chunk_bytes));
    chunks[i] = encode_chunk(part, chunk_bytes, value_bytes, kDeflateLevel);
  });
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const hsize_t offset[2] = {static_cast<hsize_t>(i) * static_cast<hsize_t>(chunk_rows), 0};
    check(H5Dwrite_chunk(set.get(), H5P_DEFAULT, 0, offset, chunks[i].size(), chunks[i].data()),
          where, "cannot be written");
  }
}

}  // namespace

Handle create_group(const Handle& parent, const char* name, const std::string& where) {
  const Handle properties = untimed(H5P_GROUP_CREATE, where);
  return {H5Gcreate2(parent.get(), name, H5P_DEFAULT, properties.get(), H5P_DEFAULT), H5Gclose,
          where + "/" + name, "group cannot be made"};
}

void write_text_attribute(const Handle& object, const char* name, const std::string& text,
                          const std::string& where) {
  const std::string here = where + "@" + name;
  check_text(text, here);
  const Handle type = text_type(std::max<std::size_t>(1, text.size()), here);
  write_scalar_attribute(object, name, type.get(), type.get(), text.c_str(), here);
}

void write_attribute(const Handle& object, const char* name, std::int64_t value,
                     const std::string& where) {
  write_scalar_attribute(object, name, H5T_NATIVE_INT64, H5T_STD_I64LE, &value, where + "@" + name);
}

void write_attribute(const Handle& object, const char* name, double value,
                     const std::string& where) {
  write_scalar_attribute(object, name, H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE, &value,
                         where + "@" + name);
}

void write_text(const Handle& parent, const char* name, const std::string& text,
                const char* long_name, const std::string& where) {
  const std::string here = where + "/" + name;
  check_text(text, here);
  const Handle type = text_type(std::max<std::size_t>(1, text.size()), here);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, here, "space cannot be made");
  const Handle properties = untimed(H5P_DATASET_CREATE, here);
  const Handle set(H5Dcreate2(parent.get(), name, type.get(), space.get(), H5P_DEFAULT,
                              properties.get(), H5P_DEFAULT),
                   H5Dclose, here, "dataset cannot be made");
  check(H5Dwrite(set.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.c_str()), here,
        "cannot be written");
  write_text_attribute(set, "long_name", long_name, here);
}

void write_raw(const Handle& parent, const trace::Dataset& dataset, const void* data,
               hid_t file_type, std::size_t value_bytes, const std::string& where) {
  const std::string here = where + "/" + dataset.name;
  const std::int64_t width = std::max<std::int64_t>(1, dataset.width);
  const int rank = dataset.width > 0 ? 2 : 1;
  const std::int64_t row_bytes = width * static_cast<std::int64_t>(value_bytes);
  const std::int64_t chunk_rows = rows_per_chunk(dataset.rows, row_bytes);
  const hsize_t extent[2] = {static_cast<hsize_t>(dataset.rows), static_cast<hsize_t>(width)};
  const hsize_t chunk[2] = {static_cast<hsize_t>(chunk_rows), static_cast<hsize_t>(width)};
  const Handle space(H5Screate_simple(rank, extent, nullptr), H5Sclose, here,
                     "space cannot be made");
  const Handle properties = storage(rank, chunk, here);
  const Handle set(H5Dcreate2(parent.get(), dataset.name, file_type, space.get(), H5P_DEFAULT,
                              properties.get(), H5P_DEFAULT),
                   H5Dclose, here, "dataset cannot be made");
  const std::span bytes(static_cast<const unsigned char*>(data),
                        static_cast<std::size_t>(dataset.rows * row_bytes));
  write_chunks(set, bytes, static_cast<std::size_t>(chunk_rows * row_bytes), value_bytes,
               chunk_rows, here);
  write_text_attribute(set, "units", dataset.units, here);
  write_text_attribute(set, "long_name", dataset.long_name, here);
}

void write_column(const Handle& parent, const trace::Dataset& dataset,
                  const std::vector<std::string>& column, const std::string& where) {
  const std::string here = where + "/" + dataset.name;
  std::size_t longest = 1;
  for (const std::string& text : column) {
    check_text(text, here);
    longest = std::max(longest, text.size());
  }
  std::string padded(longest * column.size(), '\0');
  for (std::size_t i = 0; i < column.size(); ++i)
    column[i].copy(padded.data() + i * longest, longest);
  const Handle type = text_type(longest, here);
  write_raw(parent, dataset, padded.data(), type.get(), longest, where);
}

}  // namespace dgap::schemas::hdf5
