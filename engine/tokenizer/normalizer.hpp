#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dgap::engine {

/// A change to text before it is split.
struct NormalizerStep {
  enum class Kind { nfc, prepend, replace };  // prepend: `to`, unless the text is empty
  Kind kind = Kind::nfc;
  std::string from, to;  // replace: every `from` (not empty) by `to`
};

/// Memory of one thread for Normalizer.
struct NormalizerBuffers {
  std::string a, b;
};

/// `text` (valid UTF-8) after all steps, in their order: `text` itself where nothing changes, else
/// in `buffers`, until the next call.
std::string_view normalize(std::string_view text, const std::vector<NormalizerStep>& steps,
                           NormalizerBuffers& buffers);

}  // namespace dgap::engine
