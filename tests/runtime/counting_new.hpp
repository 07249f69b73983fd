#pragma once

namespace dgap::test {

/// Calls of operator new in this program so far: counting_new.cpp replaces it.
long allocations();

}  // namespace dgap::test
