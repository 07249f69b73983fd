#include "base/sha256.hpp"

#include <gtest/gtest.h>

namespace dgap::base {
namespace {

TEST(Sha256, StandardVectors) {  // FIPS 180-4 examples
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesEqualTheWhole) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (std::size_t first = 0; first < text.size(); first += 13) {
    for (const std::size_t second :
         {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65}}) {
      Sha256 hash, portable(true);
      portable.update(text);
      hash.update(std::string_view(text).substr(0, first));
      hash.update(std::string_view(text).substr(first, second));
      hash.update(std::string_view(text).substr(std::min(first + second, text.size())));
      const std::string hex = hash.hex();
      EXPECT_EQ(hex, sha256_hex(text)) << first << " " << second;
      EXPECT_EQ(hex, portable.hex());
    }
  }
}

}  // namespace
}  // namespace dgap::base
