// What the columns of a sample of a file hold, and what they may be good for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace millrace {

enum class ColumnType : uint8_t {
  kConstant,  // it tells nothing
  kNumber,
  kBoolean,
  kTime,
  kCategory,
  kId,   // categories that are too many to list
  kKey,  // another value in each row: it tells nothing
  kText,
};
std::string_view NameOf(ColumnType type);  // "constant", "number", ...

// Counts the cells of one column. Pure; a value counts as it stands, trimmed.
class ColumnSurvey {
 public:
  explicit ColumnSurvey(std::string name) : name_(std::move(name)) {}

  void Add(std::string_view cell);

  // The type, with cells read as numbers with decimal commas or points. The rules, of which the
  // first that applies counts, are in docs/files.md.
  ColumnType TypeOf(bool decimal_comma) const;
  // Why it has this type, and some values: for a person, on one line.
  std::string ReasonOf(ColumnType type, bool decimal_comma) const;

  const std::string& name() const { return name_; }
  // More of its cells are numbers with a decimal comma (with a point) than with the other.
  bool prefers_commas() const { return commas_.count > points_.count; }
  bool prefers_points() const { return points_.count > commas_.count; }
  // Cells of a column of numbers or times that are none: they may mean that there is no value.
  std::vector<std::string> OtherWords(ColumnType type, bool decimal_comma) const;
  uint64_t cells_not_in_utf8() const { return not_utf8_; }
  uint64_t cells_beyond_ascii() const { return beyond_ascii_; }  // that are in UTF-8

  // Whether it can be a label: of classes, or a number to be estimated.
  bool MayBeClass() const;
  bool MayBeTarget(bool decimal_comma) const;
  // "no" 78 %, "yes" 22 %
  std::string Shares() const;

 private:
  struct Numbers {
    uint64_t count = 0;
    uint64_t whole = 0;
    uint64_t since_1990 = 0;  // as seconds or milliseconds, until 2038
    double least = 0;
    double most = 0;
    double last = 0;
    uint64_t steps_of_one = 0;  // from the number before

    void Add(double value);
  };

  const Numbers& NumbersOf(bool decimal_comma) const { return decimal_comma ? commas_ : points_; }
  uint64_t filled() const { return cells_ - missing_; }
  bool IsUnique() const;
  bool IsMostly(uint64_t count) const;
  ColumnType TypeOfNumbers(const Numbers& numbers) const;
  ColumnType TypeOfWords() const;
  std::vector<std::pair<std::string, uint64_t>> MostFrequent(size_t most) const;
  std::string Examples(ColumnType type) const;

  std::string name_;
  uint64_t cells_ = 0;
  uint64_t missing_ = 0;
  uint64_t not_utf8_ = 0;
  uint64_t beyond_ascii_ = 0;
  uint64_t booleans_ = 0;
  uint64_t boolean_words_ = 0;  // those of them that are no digits
  uint64_t times_ = 0;          // that are no numbers
  uint64_t words_ = 0;
  Numbers points_;
  Numbers commas_;
  uint64_t tallied_ = 0;                               // cells that are in tally_
  absl::flat_hash_map<std::string, uint64_t> tally_;   // of the values, until they are many
  absl::flat_hash_map<std::string, uint64_t> others_;  // few, that are no numbers and no times
  uint64_t other_cells_ = 0;
};

}  // namespace millrace
