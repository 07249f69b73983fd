#include "schemas/trace/hdf5_text.hpp"

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

}  // namespace

TextReader::TextReader(const Handle& type, std::size_t count, const std::string& where)
    : where_(where),
      type_(H5Tcopy(type.get()), H5Tclose, where, "type cannot be examined"),
      transfer_(H5Pcreate(H5P_DATASET_XFER), H5Pclose, where, "cannot be prepared"),
      variable_(H5Tis_variable_str(type.get()) > 0),
      size_(H5Tget_size(type.get())),
      budget_(kMostTextBytes) {
  if (H5Tget_class(type.get()) != H5T_STRING) throw base::IoError(where + ": is not text");
  check(H5Pset_vlen_mem_manager(transfer_.get(), allocate_within, &budget_, release, nullptr),
        where, "cannot be prepared");
  if (variable_) {
    pointers_.resize(count, nullptr);
  } else if (count > 0 && size_ > kMostTextBytes / count) {
    throw base::IoError(where + ": is longer than any text of a trace");
  } else {
    bytes_.resize(count * size_);
  }
}

TextReader::~TextReader() {
  for (char* text : pointers_) std::free(text);
}

std::string TextReader::fixed_text(std::size_t i) const {
  std::string text(bytes_.data() + i * size_, size_);
  switch (H5Tget_strpad(type_.get())) {
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

std::vector<std::string> TextReader::texts() const {
  const std::size_t count = variable_ ? pointers_.size() : (size_ == 0 ? 0 : bytes_.size() / size_);
  std::vector<std::string> found(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!variable_) {
      found[i] = fixed_text(i);
    } else if (pointers_[i] != nullptr) {
      found[i] = pointers_[i];
    }
    if (base::valid_utf8_prefix(found[i]) != found[i].size())
      throw base::IoError(where_ + ": is not UTF-8");
  }
  return found;
}

}  // namespace dgap::schemas::hdf5
