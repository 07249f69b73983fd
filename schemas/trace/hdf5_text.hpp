#pragma once
#include <string>
#include <vector>

#include "schemas/trace/hdf5_raii.hpp"

namespace dgap::schemas::hdf5 {

/// Reads `count` texts of whatever kind a file holds: fixed or variable length, null-terminated,
/// null- or space-padded, ASCII or UTF-8. Private to schemas/trace/.
class TextReader {
 public:
  /// `type`: as stored. IoError when it is not text.
  TextReader(const Handle& type, std::size_t count, const std::string& where);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  hid_t type() const { return type_.get(); }
  /// Transfer properties that bound what variable-length texts may allocate.
  hid_t transfer() const { return transfer_.get(); }
  void* buffer() { return variable_ ? static_cast<void*>(pointers_.data()) : bytes_.data(); }
  /// After the read: IoError on text that is not UTF-8.
  std::vector<std::string> texts() const;

 private:
  std::string fixed_text(std::size_t i) const;

  std::string where_;
  Handle type_;
  Handle transfer_;
  bool variable_;
  std::size_t size_;             // of one fixed text
  std::vector<char> bytes_;      // fixed
  std::vector<char*> pointers_;  // variable; allocated by HDF5
  std::size_t budget_;           // bytes that variable texts may still take
};

}  // namespace dgap::schemas::hdf5
