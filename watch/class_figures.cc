#include "watch/class_figures.h"

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

std::optional<double> Ratio(uint64_t part, uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::vector<ClassFigures> ClassFiguresOf(
    const Figures& figures, const google::protobuf::RepeatedPtrField<std::string>& names) {
  std::vector<ClassFigures> classes;
  for (int i = 0; i < figures.class_rows_size(); ++i) {
    ClassFigures one;
    one.name = i < names.size() ? names[i] : absl::StrCat("class ", i);
    one.rows = figures.class_rows(i);
    one.predicted = figures.class_predicted(i);
    const uint64_t correct = figures.class_correct(i);
    one.precision = Ratio(correct, one.predicted);
    one.recall = Ratio(correct, one.rows);
    if (one.rows > 0 || one.predicted > 0) {
      one.f1 = 2 * static_cast<double>(correct) /
               (static_cast<double>(one.rows) + static_cast<double>(one.predicted));
    }
    classes.push_back(std::move(one));
  }
  return classes;
}

std::vector<Confusion> ConfusionsOf(const Figures& figures) {
  std::vector<Confusion> confusions;
  const auto side = static_cast<size_t>(figures.class_rows_size());
  for (int i = 0; i < figures.cell_size(); ++i) {
    const size_t cell = figures.cell(i);
    confusions.push_back({cell / side, cell % side, figures.cell_count(i)});
  }
  return confusions;
}

}  // namespace millrace
