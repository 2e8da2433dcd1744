// What separates the fields of a CSV file, found or told.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace millrace {

// Finds the delimiter of a file by its header, the first line that is not empty: that candidate of
// , ; tab | which occurs in it most often outside quotes. If none does, or if two do equally often,
// it is the comma.
class DelimiterFinder {
 public:
  // Takes the next bytes of the file, from its first on, in pieces of any size. Whether the header
  // is complete: further bytes change nothing.
  bool Feed(std::string_view bytes);

  // By what was fed.
  char delimiter() const;

 private:
  static constexpr std::string_view kCandidates = ",;\t|";

  enum class State : uint8_t { kFieldStart, kField, kQuoted, kAfterQuote };

  std::array<uint64_t, kCandidates.size()> counts_{};
  uint64_t position_ = 0;  // of the next byte in the file
  State state_ = State::kFieldStart;
  bool line_is_empty_ = true;
  bool complete_ = false;
};

// The delimiter that a user named: by itself ("\t" also as two characters), or as comma, semicolon,
// tab, pipe or space. InvalidArgument: it is longer, or a character that cannot separate fields.
StatusOr<char> ParseDelimiter(std::string_view text);

// As messages name it: "semicolons", "tabs", or the character in quotes.
std::string DelimiterName(char delimiter);

}  // namespace millrace
