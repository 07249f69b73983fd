#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "schemas/trace/hdf5_raii.hpp"
#include "schemas/trace/layout.hpp"

/// Groups, datasets and attributes of a file that is being written. Private to schemas/trace/.
namespace dgap::schemas::hdf5 {

Handle create_group(const Handle& parent, const char* name, const std::string& where);

/// Texts are UTF-8 of fixed length: unlike variable ones they are checksummed, and HDF5 1.10 can
/// read them from a damaged file without harm.
void write_text_attribute(const Handle& object, const char* name, const std::string& text,
                          const std::string& where);
void write_attribute(const Handle& object, const char* name, std::int64_t value,
                     const std::string& where);
void write_attribute(const Handle& object, const char* name, double value,
                     const std::string& where);

/// One text as a scalar dataset of fixed length (attributes end at 64 KiB).
void write_text(const Handle& parent, const char* name, const std::string& text,
                const char* long_name, const std::string& where);

/// A chunked, shuffled, deflated and checksummed dataset with `units` and `long_name`. Rows are
/// whole in their chunk, chunks are near 1 MiB and of equal size.
/// `data` is as the file has it: rows of little-endian values.
void write_raw(const Handle& parent, const trace::Dataset& dataset, const void* data,
               hid_t file_type, std::size_t value_bytes, const std::string& where);

template <class T>
void write_column(const Handle& parent, const trace::Dataset& dataset, const std::vector<T>& column,
                  const std::string& where) {
  static_assert(std::endian::native == std::endian::little);
  write_raw(parent, dataset, column.data(), TypeOf<T>::file(), sizeof(T), where);
}
/// Texts are null-padded UTF-8 of the longest one's length: checksummed and compressed like
/// numbers.
void write_column(const Handle& parent, const trace::Dataset& dataset,
                  const std::vector<std::string>& column, const std::string& where);

}  // namespace dgap::schemas::hdf5
