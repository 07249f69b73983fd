#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/include/dgap/runtime.h"

/// Rows and what a bundle of an earlier version made of them: tests/runtime/fixtures/NAME.json
/// beside the bundle NAME/. Numbers are stored as their bits.
namespace dgap::test {

/// A row of logits, before and after.
struct ServedRow {
  std::int32_t dtype = DGAP_F32;
  std::vector<std::uint32_t> logits;  // bits
  std::int32_t verdict = 0, window = 0;
  std::uint32_t risk = 0;                      // bits
  std::map<int, std::uint32_t> restored = {};  // by id, those that have other bits now

  bool operator==(const ServedRow&) const = default;
};

/// All rows of one sequence, in order.
struct Fixture {
  std::string precision;
  std::vector<std::int32_t> text;  // before the first row; one more id after every row
  std::vector<float> hidden;       // of every row; empty: not taken
  bool online = false;             // with a controller
  std::vector<ServedRow> rows;
  std::uint64_t tau = 0;  // bits, of the controller after the last row

  bool operator==(const Fixture&) const = default;
};

Fixture read_fixture(const std::filesystem::path& file);
void write_fixture(const std::filesystem::path& file, const Fixture& fixture);

/// The same rows through the C ABI; FailedError with dgap_last_error() where a call fails.
/// `bundle`: its directory.
Fixture serve(const std::filesystem::path& bundle, const Fixture& fixture);

}  // namespace dgap::test
