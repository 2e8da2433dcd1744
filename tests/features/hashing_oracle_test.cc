// The text features against scikit-learn's, by the file that make_oracle.py wrote.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "features/murmur3.h"
#include "features/text_hasher.h"
#include "features/tokenizer.h"
#include "features/unicode_tables.h"

namespace millrace {
namespace {

constexpr uint32_t kBlock = 4096;

// The lines of the oracle that start with `kind`, without it.
std::vector<std::istringstream> LinesOf(const std::string& kind) {
  std::ifstream file(MILLRACE_HASHING_ORACLE);
  EXPECT_TRUE(file.is_open());
  std::vector<std::istringstream> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kind + " ")) lines.emplace_back(line.substr(kind.size() + 1));
  }
  return lines;
}

std::string FromHex(std::string_view hex) {
  if (hex == "-") return "";
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size() && hex[i] != '*'; i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  const size_t star = hex.find('*');
  if (star == std::string_view::npos) return bytes;
  std::string repeated;
  for (int n = std::stoi(std::string(hex.substr(star + 1))); n > 0; --n) repeated += bytes;
  return repeated;
}

TEST(HashingOracle, IsOfTheUnicodeVersionOfTheTables) {
  std::vector<std::istringstream> lines = LinesOf("unicode");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].str(), UnicodeVersion());
}

TEST(HashingOracle, AgreesOnEveryCodePoint) {
  Tokenizer tokenizer;
  uint32_t checked = 0;
  for (std::istringstream& line : LinesOf("code_points")) {
    uint32_t first;
    int32_t digest;
    ASSERT_TRUE(line >> first >> digest);
    std::string shown;
    for (uint32_t c = first; c < first + kBlock; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      char bytes[4];
      const std::string character(bytes, EncodeUtf8(c, bytes));
      const std::string texts[] = {"_" + character + "_",   "a" + character,
                                   character + "\u03a3__",  "A" + character + "\u03a3__",
                                   "__A\u03a3" + character, "__A\u03a3" + character + "B"};
      for (const std::string& text : texts) {
        ASSERT_TRUE(tokenizer.Read(text)) << c;
        tokenizer.ForEachToken([&](const char* token, size_t size) {
          shown.append(token, size);
          shown += '\n';
        });
        shown += '\n';
      }
      ++checked;
    }
    EXPECT_EQ(Murmur3(shown), digest) << "the code points from " << first << " on";
  }
  EXPECT_EQ(checked, 0x110000u - 0x800u);
}

TEST(HashingOracle, AgreesOnEveryTextOfTheCorpus) {
  std::map<uint32_t, TextHasher> hashers;
  size_t checked = 0;
  for (std::istringstream& line : LinesOf("text")) {
    uint32_t buckets;
    size_t features;
    int32_t digest;
    std::string hex;
    ASSERT_TRUE(line >> buckets >> features >> digest >> hex);
    const std::string text = FromHex(hex);
    std::vector<uint32_t> index;
    std::vector<float> value;
    TextHasher& hasher = hashers.try_emplace(buckets, buckets).first->second;
    ASSERT_TRUE(hasher.Append(text, 0, &index, &value)) << hex;
    std::string pairs(8 * index.size(), '\0');
    for (size_t i = 0; i < index.size(); ++i) {
      std::memcpy(&pairs[8 * i], &index[i], 4);
      std::memcpy(&pairs[8 * i + 4], &value[i], 4);
    }
    EXPECT_EQ(index.size(), features) << buckets << " buckets, text " << hex;
    EXPECT_EQ(Murmur3(pairs), digest) << buckets << " buckets, text " << hex;
    ++checked;
  }
  EXPECT_GT(checked, 700u);
}

}  // namespace
}  // namespace millrace
