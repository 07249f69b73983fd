#include "corpus/vocabulary.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dgap::corpus {

Kind kind_of(std::string_view name) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found == kKindNames.end()) {
    throw base::UsageError("\"" + std::string(name) + "\" is not one of " +
                           base::join({kKindNames.begin(), kKindNames.end()}));
  }
  return static_cast<Kind>(found - kKindNames.begin());
}

}  // namespace dgap::corpus
