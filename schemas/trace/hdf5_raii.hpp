#pragma once
#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>

/// The little of HDF5's C API that traces need, with owners and errors. Private to schemas/trace/.
namespace dgap::schemas::hdf5 {

/// To be held around every use: HDF5 may be built without thread safety, and prints its errors to
/// stderr unless told not to (per thread; the caller's setting comes back afterwards).
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  H5E_auto2_t printer_ = nullptr;
  void* printer_data_ = nullptr;
};

/// Throws IoError "<where>: <what>: <HDF5's own account>".
[[noreturn]] void fail(const std::string& where, const std::string& what);

inline void check(herr_t status, const std::string& where, const char* what) {
  if (status < 0) fail(where, what);
}

/// Owns an identifier of any kind. Throws on creation from an invalid one.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close closer, const std::string& where, const char* what)
      : id_(id), close_(closer) {
    if (id_ < 0) fail(where, what);
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  hid_t get() const { return id_; }
  herr_t close() { return close_(std::exchange(id_, H5I_INVALID_HID)); }

 private:
  hid_t id_;
  Close close_;
};

/// Opens an existing file for reading. Locking is on, and may be missing (file systems without it)
/// as HDF5_USE_FILE_LOCKING says: TRUE or 1, FALSE or 0, BEST_EFFORT (the default).
Handle open_file(const std::filesystem::path& path);

/// File access properties that close whatever is open in the file along with it.
Handle access_properties(const std::string& where);
/// An HDF5 type for a C++ type, the same in memory (of this machine) and in the file
/// (little-endian).
template <class T>
struct TypeOf;
template <>
struct TypeOf<std::int32_t> {
  static hid_t memory() { return H5T_NATIVE_INT32; }
  static hid_t file() { return H5T_STD_I32LE; }
  static hid_t other_order() { return H5T_STD_I32BE; }
  static constexpr const char* kName = "32-bit integers";
};
template <>
struct TypeOf<std::int64_t> {
  static hid_t memory() { return H5T_NATIVE_INT64; }
  static hid_t file() { return H5T_STD_I64LE; }
  static hid_t other_order() { return H5T_STD_I64BE; }
  static constexpr const char* kName = "64-bit integers";
};
template <>
struct TypeOf<float> {
  static hid_t memory() { return H5T_NATIVE_FLOAT; }
  static hid_t file() { return H5T_IEEE_F32LE; }
  static hid_t other_order() { return H5T_IEEE_F32BE; }
  static constexpr const char* kName = "32-bit floats";
};
template <>
struct TypeOf<double> {
  static hid_t memory() { return H5T_NATIVE_DOUBLE; }
  static hid_t file() { return H5T_IEEE_F64LE; }
  static hid_t other_order() { return H5T_IEEE_F64BE; }
  static constexpr const char* kName = "64-bit floats";
};
/// Halves are carried as their bits.
template <>
struct TypeOf<std::uint16_t> {
  static hid_t memory();
  static hid_t file() { return memory(); }
  static hid_t other_order() { return memory(); }
  static constexpr const char* kName = "little-endian 16-bit floats";
};

}  // namespace dgap::schemas::hdf5
