// Helpers of the CSV tests: parsing a text by chunks, and an independent writer.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "formats/csv_parser.h"

namespace millrace {

// A CsvRecord that owns its text.
struct ParsedRecord {
  std::vector<std::string> fields;
  uint64_t line = 0;
  uint64_t offset = 0;
  std::string raw;
  std::string error;

  bool operator==(const ParsedRecord&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const ParsedRecord& record) {
  out << "line " << record.line << " at " << record.offset << " {";
  for (const std::string& field : record.fields) out << "[" << field << "]";
  return out << "} " << record.error << " <" << record.raw << ">";
}

// `next_size` gives the size of each chunk.
template <typename NextSize>
std::vector<ParsedRecord> ParseByChunks(std::string_view text, CsvLimits limits, NextSize next_size,
                                        char delimiter = ',') {
  CsvParser parser(limits, delimiter);
  CsvRecord record;
  std::vector<ParsedRecord> records;
  while (true) {
    switch (parser.Next(&record)) {
      case CsvParser::Event::kRecord:
        records.push_back({{record.fields.begin(), record.fields.end()},
                           record.line,
                           record.offset,
                           std::string(record.raw),
                           record.error});
        break;
      case CsvParser::Event::kNeedInput:
        if (text.empty()) {
          parser.Finish();
        } else {
          const size_t size = std::min(text.size(), next_size());
          parser.Feed(text.substr(0, size));
          text.remove_prefix(size);
        }
        break;
      case CsvParser::Event::kEnd:
        return records;
    }
  }
}

inline std::vector<ParsedRecord> Parse(std::string_view text, CsvLimits limits = {}) {
  return ParseByChunks(text, limits, [] { return SIZE_MAX; });
}

// A field as RFC 4180 wants it, quoted only where it must be, or always.
inline std::string Quoted(std::string_view field, bool always) {
  if (!always && field.find_first_of(",\"\r\n") == std::string_view::npos)
    return std::string(field);
  std::string quoted = "\"";
  for (char c : field) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace millrace
