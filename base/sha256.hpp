#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace dgap::base {

/// SHA-256 (FIPS 180-4), own because the runtime may depend on nothing but the C++ library.
class Sha256 {
 public:
  /// `portable`: without the processor's own instructions, for tests.
  explicit Sha256(bool portable = false);
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// 64 lower-case hex digits. The object must not be used afterwards.
  std::string hex();

 private:
  bool portable_;
  std::array<std::uint32_t, 8> state_;
  std::array<std::uint8_t, 64> buffer_;
  std::uint64_t length_ = 0;
};

std::string sha256_hex(std::string_view text);
std::string sha256_hex(std::span<const std::byte> bytes);
/// Of a file's contents. IoError when it cannot be read; stops when asked to (base/stop.hpp).
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace dgap::base
