#pragma once
#include <string>
#include <vector>

namespace dgap::fuzz {

/// Small trace parts, compact and full. (Apart from make_seeds.cpp: the helpers of the tests'
/// folders have temporary folders of their own.)
std::vector<std::string> trace_seeds();

}  // namespace dgap::fuzz
