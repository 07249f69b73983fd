#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "schemas/trace/hdf5_raii.hpp"

/// Reading a file that may be damaged or hostile. Private to schemas/trace/.
///
/// Links must be hard ones; datasets must lie in this file, have the expected type and extent and
/// not claim more bytes than their storage can hold; filters must be at hand. All of it is checked
/// before anything is allocated. Names are paths from the root ("reference/top/ids").
namespace dgap::schemas::hdf5 {

class Input {
 public:
  explicit Input(const std::filesystem::path& path);

  bool exists(const std::string& name) const;
  std::vector<std::string> groups_in(const std::string& name) const;

  /// Attributes of a group ("" = root).
  std::string text_attribute(const std::string& object, const char* name) const;
  std::int64_t integer_attribute(const std::string& object, const char* name) const;
  double number_attribute(const std::string& object, const char* name) const;

  std::vector<std::int64_t> shape(const std::string& name) const;
  /// [rows], or [rows, width] where width > 0.
  template <class T>
  std::vector<T> column(const std::string& name, std::int64_t rows, std::int64_t width) const {
    const Handle set =
        numbers(name, rows, width, TypeOf<T>::file(), TypeOf<T>::other_order(), TypeOf<T>::kName);
    std::vector<T> values(static_cast<std::size_t>(rows * (width > 0 ? width : 1)));
    read(set, TypeOf<T>::memory(), values.data(), name);
    return values;
  }
  /// Fixed or variable, ASCII or UTF-8.
  std::vector<std::string> texts(const std::string& name, std::int64_t rows) const;
  std::string text(const std::string& name) const;

  [[noreturn]] void refuse(const std::string& name, const std::string& what) const;

 private:
  std::string where(const std::string& name) const { return path_ + ": " + name; }
  Handle object(const std::string& name, H5I_type_t kind) const;
  Handle dataset(const std::string& name) const;
  Handle attribute(const std::string& object_name, const char* name) const;
  Handle numbers(const std::string& name, std::int64_t rows, std::int64_t width, hid_t type,
                 hid_t other_order, const char* type_name) const;
  void check_filters(const Handle& properties, const std::string& name) const;
  void check_storage(const Handle& set, const Handle& properties, const std::string& name) const;
  void check_shape(const Handle& set, const std::vector<std::int64_t>& expected,
                   const std::string& name) const;
  std::vector<std::int64_t> shape_of(const Handle& set, const std::string& name) const;
  std::vector<std::string> texts_of(const Handle& set, std::int64_t count,
                                    const std::string& name) const;
  void check_heaps_for(const Handle& type) const;
  void read(const Handle& set, hid_t memory_type, void* out, const std::string& name) const;

  std::string path_;
  std::uint64_t file_bytes_;
  Handle file_;
  mutable bool heaps_checked_ = false;
};

}  // namespace dgap::schemas::hdf5
