#include "features/murmur3.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace millrace {
namespace {

// The numbers are those of sklearn.utils.murmurhash3_32(key, seed=0).
TEST(Murmur3, EqualsScikitLearns) {
  const std::pair<std::string, int32_t> known[] = {
      {"", 0},
      {"a", 1009084850},
      {"ab", -1681926305},
      {"abc", -1277324294},
      {"abcd", 1139631978},
      {"abcde", -392455434},
      {"hello world", 1586663183},
      {"the quick brown fox", 519850996},
      {"\xC3\xA9", 269551495},
      {std::string(33, 'x'), -51778350},
      {"ad1u66pi", INT32_MIN},
  };
  for (const auto& [key, hash] : known) {
    EXPECT_EQ(Murmur3(key), hash) << key;
    EXPECT_EQ(Murmur3Padded((key + std::string(12, '#')).data(), key.size()), hash) << key;
  }
}

TEST(Murmur3, OfAPaddedKeyDependsOnTheKeyAlone) {
  for (size_t size = 0; size < 100; ++size) {
    std::string key;
    for (size_t i = 0; i < size; ++i) key += static_cast<char>(37 * i + size);
    for (char padding : {'\0', 'x', '\xFF'}) {
      EXPECT_EQ(Murmur3Padded((key + std::string(12, padding)).data(), size), Murmur3(key)) << size;
    }
  }
}

}  // namespace
}  // namespace millrace
