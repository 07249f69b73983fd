#pragma once
#include <string>
#include <vector>

#include "schemas/trace/hdf5_raii.hpp"

/// Reading texts of whatever kind a file holds: fixed or variable length, null-terminated, null- or
/// space-padded, ASCII or UTF-8. IoError when it is not text, or not UTF-8. Private to
/// schemas/trace/.
namespace dgap::schemas::hdf5 {

/// Whether a type is text of variable length: then check_global_heaps must come before reading.
bool is_variable_text(const Handle& type);

/// All `count` values of a dataset of that type.
std::vector<std::string> read_texts(const Handle& dataset, const Handle& type, std::size_t count,
                                    const std::string& where);
/// The one value of an attribute of that type.
std::string read_attribute_text(const Handle& attribute, const Handle& type,
                                const std::string& where);

}  // namespace dgap::schemas::hdf5
