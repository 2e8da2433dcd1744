// CSV of any bytes: chunks change nothing, records are where they say, what is written is read the
// same.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tests/formats/csv_text.h"
#include "tests/fuzz/target.h"

namespace millrace::fuzz {

// The first bytes choose limits and chunk sizes, the rest is the file.
void FuzzOne(ByteSource& bytes) {
  const std::string_view input = bytes.Rest();
  if (input.size() < 3) return;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(input[i]); };
  CsvLimits limits;
  if (byte(0) < 128) limits.max_record_bytes = byte(0);
  if (byte(1) < 32) limits.max_fields = 1 + byte(1);
  const size_t chunk = 1 + byte(2) % 100;
  const std::string_view text = input.substr(3);

  const std::vector<ParsedRecord> whole = Parse(text, limits);
  MILLRACE_CHECK(whole == ParseByChunks(text, limits, [&] { return chunk; }));
  uint64_t line = 0;
  uint64_t at = 0;
  for (const ParsedRecord& record : whole) {
    MILLRACE_CHECK(record.line > line);
    line = record.line;
    MILLRACE_CHECK(record.offset >= at);
    MILLRACE_CHECK(record.offset + record.raw.size() <= text.size());
    MILLRACE_CHECK(text.substr(record.offset, record.raw.size()) == record.raw);
    MILLRACE_CHECK(record.raw.size() <= limits.max_record_bytes);
    at = record.offset + record.raw.size();
    MILLRACE_CHECK(record.fields.empty() == !record.error.empty());
    MILLRACE_CHECK(record.fields.size() <= limits.max_fields);
    if (!record.error.empty()) continue;
    // What was read, written again, is read the same.
    std::string again;
    for (const std::string& field : record.fields) {
      if (!again.empty()) again += ',';
      again += Quoted(field, true);
    }
    const std::vector<ParsedRecord> reread = Parse(again);
    MILLRACE_CHECK(reread.size() == 1 && reread[0].fields == record.fields);
  }
}

}  // namespace millrace::fuzz
