#pragma once
#include <cstddef>

namespace dgap::test {

/// Calls of operator new in this program so far: counting_new.cpp replaces it.
long allocations();
/// Bytes that they asked for.
std::size_t allocated_bytes();

}  // namespace dgap::test
