#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/formats/csv_text.h"

namespace millrace {
namespace {

using Fields = std::vector<std::string>;

std::string RandomText(std::mt19937_64& random, std::string_view alphabet, size_t max_size) {
  std::string text(random() % (max_size + 1), '\0');
  for (char& c : text) c = alphabet[random() % alphabet.size()];
  return text;
}

TEST(CsvParserProperty, RandomRecordsComeBackAsTheyWereWritten) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Fields> written;
    std::vector<uint64_t> lines;
    std::vector<uint64_t> offsets;
    std::string text = random() % 2 == 0 ? "\xEF\xBB\xBF" : "";
    uint64_t line = 1;
    const size_t records = random() % 20;
    for (size_t i = 0; i < records; ++i) {
      for (size_t empty = random() % 10 == 0 ? 2 : 0; empty > 0; --empty, ++line) text += "\r\n";
      Fields fields(1 + random() % 5);
      offsets.push_back(text.size());
      lines.push_back(line);
      for (size_t j = 0; j < fields.size(); ++j) {
        fields[j] = RandomText(random, "ab ,\"\n\r;\xC3\xA9", random() % 20 == 0 ? 300 : 8);
        if (j > 0) text += ',';
        // A record of one empty field must be quoted, or it is an empty line.
        text += Quoted(fields[j], random() % 4 == 0 || (fields.size() == 1 && fields[j].empty()));
        for (char c : fields[j]) line += c == '\n';
      }
      const bool last = i + 1 == records;
      if (!last || random() % 2 == 0) text += random() % 2 == 0 ? "\r\n" : "\n";
      ++line;
      written.push_back(std::move(fields));
    }
    const std::vector<ParsedRecord> parsed = Parse(text);
    ASSERT_EQ(parsed.size(), written.size()) << "seed " << seed;
    for (size_t i = 0; i < parsed.size(); ++i) {
      ASSERT_EQ(parsed[i].error, "") << "seed " << seed;
      ASSERT_EQ(parsed[i].fields, written[i]) << "seed " << seed;
      ASSERT_EQ(parsed[i].line, lines[i]) << "seed " << seed;
      ASSERT_EQ(parsed[i].offset, offsets[i]) << "seed " << seed;
    }
  }
}

TEST(CsvParserProperty, AnyChunkingOfAnyInputGivesTheSameRecords) {
  size_t malformed = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::string text = random() % 4 == 0 ? "\xEF\xBB\xBF" : "";
    text += RandomText(random, seed % 2 == 0 ? "aaa,\"\n\r" : "aaaaaaaaaaaaaaaa,,\"\n\n", 600);
    CsvLimits limits;
    if (random() % 2 == 0) limits.max_record_bytes = random() % 80;
    if (random() % 4 == 0) limits.max_fields = 1 + random() % 5;
    const std::vector<ParsedRecord> whole = Parse(text, limits);
    for (const ParsedRecord& record : whole) malformed += !record.error.empty();
    for (size_t max : {1, 3, 70, 200}) {
      ASSERT_EQ(ParseByChunks(text, limits, [&] { return 1 + random() % max; }), whole)
          << "seed " << seed << ", chunks up to " << max << ", text:\n"
          << text;
    }
  }
  EXPECT_GT(malformed, 1000u);
}

// All input is in exactly one record's text, or is a line end, an empty line, a byte order mark, or
// the part of a too long line that is not kept.
TEST(CsvParserProperty, RecordsCoverTheInputInItsOrder) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const std::string text = RandomText(random, "ab,\"\n\r", 300);
    size_t at = 0;
    for (const ParsedRecord& record : Parse(text)) {
      ASSERT_LE(at, record.offset) << "seed " << seed;
      ASSERT_EQ(text.substr(at, record.offset - at).find_first_not_of("\r\n"), std::string::npos)
          << "seed " << seed;
      ASSERT_EQ(text.substr(record.offset, record.raw.size()), record.raw) << "seed " << seed;
      at = record.offset + record.raw.size();
    }
    ASSERT_EQ(text.substr(at).find_first_not_of("\r\n"), std::string::npos) << "seed " << seed;
  }
}

}  // namespace
}  // namespace millrace
