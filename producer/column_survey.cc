#include "producer/column_survey.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/grouped_number.h"
#include "base/utf8.h"
#include "features/missing_tokens.h"
#include "features/number.h"
#include "features/quoted_value.h"
#include "features/time_value.h"
#include "features/truth_value.h"

namespace millrace {
namespace {

constexpr size_t kMostTallied = 5'000;   // different values of a column
constexpr size_t kLongestTallied = 200;  // bytes of a value
constexpr double kMostly = 0.95;         // of the cells that are filled
constexpr size_t kMostOtherWords = 3;
constexpr size_t kMostClassesOfLabel = 20;
constexpr size_t kMostCategories = 1'000;
constexpr uint64_t kFewCells = 20;          // too few to call a column's values all different
constexpr double kWordsOfText = 3;          // a cell, on average
constexpr double kFirstSecond = 631152000;  // 1990
constexpr double kLastSecond = 2145916800;  // 2038

const MissingTokens& CommonTokens() {
  static const auto* const tokens = new MissingTokens({});
  return *tokens;
}

// The words of a name: "user_id", "userId" and "User ID" have "user" and "id".
std::vector<std::string> WordsOf(const std::string& name) {
  std::string spaced;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool begins = i > 0 && absl::ascii_isupper(static_cast<unsigned char>(name[i])) &&
                        absl::ascii_islower(static_cast<unsigned char>(name[i - 1]));
    if (begins) spaced.push_back(' ');
    const bool is_letter = absl::ascii_isalnum(static_cast<unsigned char>(name[i])) ||
                           static_cast<unsigned char>(name[i]) >= 0x80;
    spaced.push_back(is_letter ? name[i] : ' ');
  }
  return absl::StrSplit(absl::AsciiStrToLower(spaced), ' ', absl::SkipEmpty());
}

bool HasWord(const std::string& name, std::initializer_list<std::string_view> wanted) {
  const std::vector<std::string> words = WordsOf(name);
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::find(wanted.begin(), wanted.end(), word) != wanted.end();
  });
}

bool IsNamedAsCode(const std::string& name) {
  return HasWord(name, {"id", "ids", "code", "zip", "zipcode", "postcode", "plz", "key", "uuid"});
}

bool IsNamedAsTime(const std::string& name) {
  return HasWord(name, {"time", "timestamp", "date", "datetime", "ts", "at", "epoch"});
}

std::string Percent(uint64_t part, uint64_t whole) {
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  return percent >= 1 || part == 0 ? absl::StrFormat("%.0f %%", percent) : "< 1 %";
}

}  // namespace

std::string_view NameOf(ColumnType type) {
  constexpr std::string_view kNames[] = {"constant", "number", "boolean", "time",
                                         "category", "id",     "key",     "text"};
  return kNames[static_cast<size_t>(type)];
}

void ColumnSurvey::Numbers::Add(double value) {
  if (count > 0 && value == last + 1) ++steps_of_one;
  least = count == 0 ? value : std::min(least, value);
  most = count == 0 ? value : std::max(most, value);
  last = value;
  ++count;
  if (value == std::floor(value)) ++whole;
  const double seconds = value >= 1e11 ? value / 1000 : value;
  if (seconds >= kFirstSecond && seconds < kLastSecond) ++since_1990;
}

void ColumnSurvey::Add(std::string_view cell) {
  cell = TrimSpaces(cell);
  ++cells_;
  double point = 0;
  const bool is_point = ParseNumber(cell, &point) == NumberKind::kNumber;
  if (!is_point && CommonTokens().IsText(cell)) {
    ++missing_;
    return;
  }
  double comma = 0;
  const bool is_comma = ParseCommaNumber(cell, &comma) == NumberKind::kNumber;
  if (is_point) points_.Add(point);
  if (is_comma) commas_.Add(comma);
  if (const std::optional<double> truth = BooleanOf(cell)) {
    ++booleans_;
    if (!is_point) ++boolean_words_;
  }
  const bool is_time = !is_point && ParseTime(cell).has_value();
  if (is_time) ++times_;
  if (!IsValidUtf8(cell)) {
    ++not_utf8_;
  } else if (AsciiPrefix(cell) < cell.size()) {
    ++beyond_ascii_;
  }
  bool in_word = false;
  for (const char c : cell) {
    if (c != ' ' && !in_word) ++words_;
    in_word = c != ' ';
  }
  if (!is_point && !is_comma && !is_time) {
    ++other_cells_;
    if (others_.size() <= kMostOtherWords) ++others_[std::string(cell.substr(0, kLongestTallied))];
  }
  if (tally_.size() == kMostTallied) return;
  ++tallied_;
  ++tally_[std::string(cell.substr(0, kLongestTallied))];
}

bool ColumnSurvey::IsMostly(uint64_t count) const {
  return filled() > 0 && static_cast<double>(count) >= kMostly * static_cast<double>(filled());
}

// (Nine tenths: a few repetitions make no category.)
bool ColumnSurvey::IsUnique() const {
  return tallied_ >= kFewCells && tally_.size() * 10 > tallied_ * 9;
}

ColumnType ColumnSurvey::TypeOf(bool decimal_comma) const {
  if (filled() == 0 || (missing_ == 0 && tally_.size() == 1)) {
    return ColumnType::kConstant;
  }
  if (booleans_ == filled() && boolean_words_ > 0) return ColumnType::kBoolean;
  const bool few_others = others_.size() <= kMostOtherWords;
  if (IsMostly(times_) && few_others && points_.count == 0) return ColumnType::kTime;
  const Numbers& numbers = NumbersOf(decimal_comma);
  if (IsMostly(numbers.count) && few_others && numbers.count + other_cells_ == filled()) {
    return TypeOfNumbers(numbers);
  }
  return TypeOfWords();
}

ColumnType ColumnSurvey::TypeOfNumbers(const Numbers& numbers) const {
  if (IsNamedAsTime(name_) && numbers.since_1990 == numbers.count) return ColumnType::kTime;
  if (numbers.whole < numbers.count) return ColumnType::kNumber;
  const bool counts_rows = numbers.count >= kFewCells && numbers.steps_of_one + 1 == numbers.count;
  if (counts_rows) return ColumnType::kKey;
  if (!IsNamedAsCode(name_)) return ColumnType::kNumber;
  return TypeOfWords();
}

ColumnType ColumnSurvey::TypeOfWords() const {
  const double words = static_cast<double>(words_) / static_cast<double>(filled());
  if (words >= kWordsOfText && tally_.size() * 2 > tallied_) return ColumnType::kText;
  if (IsUnique()) return ColumnType::kKey;
  return tally_.size() > kMostCategories ? ColumnType::kId : ColumnType::kCategory;
}

std::vector<std::string> ColumnSurvey::OtherWords(ColumnType type, bool decimal_comma) const {
  std::vector<std::string> words;
  const bool is_read = type == ColumnType::kTime || type == ColumnType::kNumber;
  if (!is_read || (type == ColumnType::kNumber && NumbersOf(decimal_comma).count == filled())) {
    return words;
  }
  for (const auto& [word, count] : others_) words.push_back(word);
  std::sort(words.begin(), words.end());
  return words;
}

bool ColumnSurvey::MayBeClass() const {
  return tally_.size() >= 2 && tally_.size() <= kMostClassesOfLabel;
}

bool ColumnSurvey::MayBeTarget(bool decimal_comma) const {
  return !MayBeClass() && TypeOf(decimal_comma) == ColumnType::kNumber;
}

std::vector<std::pair<std::string, uint64_t>> ColumnSurvey::MostFrequent(size_t most) const {
  std::vector<std::pair<std::string, uint64_t>> values(tally_.begin(), tally_.end());
  std::sort(values.begin(), values.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (values.size() > most) values.resize(most);
  return values;
}

std::string ColumnSurvey::Shares() const {
  constexpr size_t kShown = 4;
  std::string text;
  for (const auto& [value, count] : MostFrequent(kShown)) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", QuotedValue(value), " ",
                    Percent(count, tallied_));
  }
  return tally_.size() > kShown ? text + ", ..." : text;
}

// (Of numbers and times none of the words among them.)
std::string ColumnSurvey::Examples(ColumnType type) const {
  constexpr size_t kShown = 3;
  const bool has_words = type != ColumnType::kNumber && type != ColumnType::kTime;
  std::vector<std::string> shown;
  for (const auto& [value, count] : MostFrequent(kShown + kMostOtherWords)) {
    const bool is_shown = shown.size() < kShown && (has_words || !others_.contains(value));
    if (is_shown) shown.push_back(QuotedValue(value));
  }
  return absl::StrJoin(shown, ", ");
}

std::string ColumnSurvey::ReasonOf(ColumnType type, bool decimal_comma) const {
  const std::string gaps =
      missing_ == 0 ? "" : absl::StrCat("; ", Percent(missing_, cells_), " missing");
  const std::string distinct = absl::StrCat(GroupedNumber(tally_.size()),
                                            tallied_ < filled() ? " values and more" : " values");
  const std::string examples = Examples(type);
  const Numbers& numbers = NumbersOf(decimal_comma);
  switch (type) {
    case ColumnType::kConstant:
      return filled() == 0 ? "no cell has a value" : "always " + examples;
    case ColumnType::kNumber:
      return absl::StrCat(distinct,
                          absl::StrFormat(" from %.10g to %.10g", numbers.least, numbers.most),
                          ", such as ", examples, gaps);
    case ColumnType::kBoolean:
    case ColumnType::kCategory:
      return absl::StrCat(distinct, ": ", Shares(), gaps);
    case ColumnType::kTime:
      return absl::StrCat(
          numbers.count > 0 ? "since 1970, by its name and range" : "dates or times", ", such as ",
          examples, gaps);
    case ColumnType::kId:
      return absl::StrCat(distinct, ", too many to be categories, such as ", examples, gaps);
    case ColumnType::kKey:
      return absl::StrCat("another value in nearly each row, such as ", examples, gaps);
    case ColumnType::kText:
      return absl::StrCat(
          absl::StrFormat("%.0f words a cell, such as ",
                          static_cast<double>(words_) / static_cast<double>(filled())),
          examples, gaps);
  }
  return "";
}

}  // namespace millrace
