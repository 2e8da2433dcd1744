// scikit-learn's digits, and its LogisticRegression's coefficients; see make_oracle.py.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "models/row.h"

namespace millrace {

constexpr size_t kDigitsPixels = 64;
constexpr size_t kDigitsClasses = 10;

// The pixels (0 to 16) are numeric columns.
inline std::vector<Row> ReadDigits() {
  static constexpr std::string_view kPixelCharacters = "0123456789abcdefg";
  std::ifstream in(MILLRACE_ORACLE_FOLDER "/digits.txt");
  std::vector<Row> rows;
  uint32_t label = 0;
  std::string pixels;
  while (in >> label >> pixels) {
    Row& row = rows.emplace_back();
    row.label = label;
    for (char pixel : pixels) {
      row.numeric.push_back(static_cast<double>(kPixelCharacters.find(pixel)));
    }
  }
  return rows;
}

struct DigitsOracle {
  struct Solution {
    double c = 0;
    std::vector<std::vector<double>> coefficients;  // class by class: 64 pixels, intercept; centred

    double l2() const { return 1 / (c * 1797); }  // scikit-learn divides the other part, summed
  };
  Solution raw;     // of the pixels as they are
  Solution scaled;  // of the pixels as a Scaler of all rows makes them
};

inline DigitsOracle ReadDigitsOracle() {
  std::ifstream in(MILLRACE_ORACLE_FOLDER "/digits_coefficients.txt");
  DigitsOracle oracle;
  for (DigitsOracle::Solution* solution : {&oracle.raw, &oracle.scaled}) {
    in >> solution->c;
    solution->coefficients.assign(kDigitsClasses, std::vector<double>(kDigitsPixels + 1));
    for (std::vector<double>& of_class : solution->coefficients) {
      for (double& coefficient : of_class) in >> coefficient;
    }
  }
  return oracle;
}

}  // namespace millrace
