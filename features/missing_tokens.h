// Which cells of numeric columns mean that there is no value.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// What means so where a job names no tokens of its own: what pandas.read_csv, R, SQL exports,
// spreadsheets and the UCI archive write. None of them is a number. A dash may also stand for zero;
// with an indicator feature the model learns what it stands for.
std::span<const std::string_view> CommonMissingTokens();

class MissingTokens {
 public:
  // No tokens: the common ones. A token that is a number also means every cell that is the same
  // number (-999 and -999.0), be it with a decimal point or, of a file with `decimal_comma`, a
  // comma; all others match in any case of (ASCII) letters.
  explicit MissingTokens(std::span<const std::string> tokens, bool decimal_comma = false);

  // `cell` is trimmed. An empty one always matches. IsText is for cells that are no number,
  // IsNumber for those that are.
  bool IsText(std::string_view cell) const;
  bool IsNumber(double value) const;

 private:
  std::vector<std::string> texts_;
  std::vector<double> numbers_;
};

}  // namespace millrace
