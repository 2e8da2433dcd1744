#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace millrace {
namespace {

TEST(Crc32c, GivesTheSumsOfRfc3720) {
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32c, OfPiecesIsThatOfTheWhole) {
  const std::string text = "copies of shards go from server to server";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(Crc32c(text.substr(cut), Crc32c(text.substr(0, cut))), Crc32c(text)) << cut;
  }
}

}  // namespace
}  // namespace millrace
