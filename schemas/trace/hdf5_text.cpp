#include "schemas/trace/hdf5_text.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dgap::schemas::hdf5 {
namespace {

constexpr std::size_t kMostTextBytes = std::size_t{1} << 28;

void* allocate_within(std::size_t bytes, void* budget) {
  auto& left = *static_cast<std::size_t*>(budget);
  if (bytes > left) return nullptr;
  left -= bytes;
  return std::malloc(bytes);
}

void release(void* text, void*) { std::free(text); }

/// Pointers to texts that HDF5 allocates, and how to give them back.
struct VariableTexts {
  VariableTexts(std::size_t count, void (*free_text)(void*))
      : pointers(count, nullptr), free(free_text) {}
  ~VariableTexts() {
    for (char* text : pointers) free(text);
  }
  VariableTexts(const VariableTexts&) = delete;
  VariableTexts& operator=(const VariableTexts&) = delete;

  std::vector<char*> pointers;
  void (*free)(void*);
};

std::string checked(std::string text, const std::string& where) {
  if (base::valid_utf8_prefix(text) != text.size()) throw base::IoError(where + ": is not UTF-8");
  return text;
}

std::vector<std::string> checked(const VariableTexts& variable, const std::string& where) {
  std::vector<std::string> texts;
  for (const char* text : variable.pointers)
    texts.push_back(checked(text == nullptr ? "" : text, where));
  return texts;
}

std::string without_padding(std::string text, H5T_str_t padding) {
  switch (padding) {
    case H5T_STR_NULLTERM:
      text.resize(std::min(text.find('\0'), text.size()));
      break;
    case H5T_STR_SPACEPAD:
      text.resize(text.find_last_not_of(' ') + 1);
      break;
    default:
      text.resize(text.find_last_not_of('\0') + 1);
  }
  return text;
}

void check_text(const Handle& type, std::size_t count, const std::string& where) {
  if (H5Tget_class(type.get()) != H5T_STRING) throw base::IoError(where + ": is not text");
  if (H5Tget_size(type.get()) > kMostTextBytes / std::max<std::size_t>(1, count)) {
    throw base::IoError(where + ": is longer than any text of a trace");
  }
}

/// `read(buffer)` fills count fixed texts.
template <class Read>
std::vector<std::string> read_fixed(const Handle& type, std::size_t count, const std::string& where,
                                    Read read) {
  const std::size_t size = H5Tget_size(type.get());
  const H5T_str_t padding = H5Tget_strpad(type.get());
  std::string bytes(size * count, '\0');
  check(read(bytes.data()), where, "cannot be read");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    texts.push_back(checked(without_padding(bytes.substr(i * size, size), padding), where));
  }
  return texts;
}

}  // namespace

bool is_variable_text(const Handle& type) { return H5Tis_variable_str(type.get()) > 0; }

std::vector<std::string> read_texts(const Handle& dataset, const Handle& type, std::size_t count,
                                    const std::string& where) {
  check_text(type, count, where);
  const auto read = [&](hid_t transfer, void* out) {
    return H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, transfer, out);
  };
  if (!is_variable_text(type)) {
    return read_fixed(type, count, where, [&](void* out) { return read(H5P_DEFAULT, out); });
  }
  std::size_t budget = kMostTextBytes;
  const Handle transfer(H5Pcreate(H5P_DATASET_XFER), H5Pclose, where, "cannot be prepared");
  check(H5Pset_vlen_mem_manager(transfer.get(), allocate_within, &budget, release, nullptr), where,
        "cannot be prepared");
  VariableTexts texts(count, std::free);
  check(read(transfer.get(), texts.pointers.data()), where, "cannot be read");
  return checked(texts, where);
}

std::string read_attribute_text(const Handle& attribute, const Handle& type,
                                const std::string& where) {
  check_text(type, 1, where);
  const auto read = [&](void* out) { return H5Aread(attribute.get(), type.get(), out); };
  if (!is_variable_text(type)) return read_fixed(type, 1, where, read).front();
  VariableTexts text(1, [](void* p) { H5free_memory(p); });
  check(read(text.pointers.data()), where, "cannot be read");
  return checked(text, where).front();
}

}  // namespace dgap::schemas::hdf5
