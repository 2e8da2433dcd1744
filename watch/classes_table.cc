#include "watch/classes_table.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "watch/class_figures.h"

namespace millrace {
namespace {

using Lines = std::vector<std::string>;

constexpr size_t kLongestName = 20;
constexpr size_t kConfusionsTold = 5;
constexpr size_t kCellGap = 2;

std::string Name(const ClassFigures& one) { return Clipped(one.name, kLongestName); }

size_t NameColumns(const std::vector<ClassFigures>& classes) {
  size_t columns = 5;  // of the title
  for (const ClassFigures& one : classes) columns = std::max(columns, ColumnsOf(Name(one)));
  return columns;
}

std::string Cell(std::optional<double> value, size_t columns) {
  return PaddedLeft(value ? FigureText(*value) : "-", columns + kCellGap);
}

void AddPrecisions(const std::vector<ClassFigures>& classes, const Style& style, Lines& lines) {
  const size_t name = NameColumns(classes);
  lines.push_back(Inked(style, Ink::kDim,
                        PaddedRight("class", name) + "  precision  recall      F1       rows"));
  for (const ClassFigures& one : classes) {
    lines.push_back(absl::StrCat(PaddedRight(Name(one), name), Cell(one.precision, 9),
                                 Cell(one.recall, 6), Cell(one.f1, 6),
                                 PaddedLeft(GroupedNumber(one.rows), 9 + kCellGap)));
  }
}

// A line for each label, a column for each prediction; false: too wide.
bool AddMatrix(const std::vector<ClassFigures>& classes, const std::vector<Confusion>& cells,
               const Style& style, size_t width, Lines& lines) {
  std::vector<size_t> columns;
  std::vector<std::vector<uint64_t>> matrix(classes.size(), std::vector<uint64_t>(classes.size()));
  for (const ClassFigures& one : classes) columns.push_back(ColumnsOf(Name(one)));
  for (const Confusion& cell : cells) {
    matrix[cell.label][cell.predicted] = cell.rows;
    columns[cell.predicted] = std::max(columns[cell.predicted], GroupedNumber(cell.rows).size());
  }
  const size_t name = NameColumns(classes);
  size_t used = name;
  for (const size_t column : columns) used += column + kCellGap;
  if (used > width) return false;
  std::string header(name, ' ');
  for (size_t i = 0; i < classes.size(); ++i) {
    header += PaddedLeft(Name(classes[i]), columns[i] + kCellGap);
  }
  lines.push_back("rows by class, and the class that they were taken for:");
  lines.push_back(Inked(style, Ink::kDim, header));
  for (size_t label = 0; label < classes.size(); ++label) {
    std::string line = PaddedRight(Name(classes[label]), name);
    for (size_t i = 0; i < classes.size(); ++i) {
      line += PaddedLeft(GroupedNumber(matrix[label][i]), columns[i] + kCellGap);
    }
    lines.push_back(std::move(line));
  }
  return true;
}

void AddWorstConfusions(const std::vector<ClassFigures>& classes, std::vector<Confusion> cells,
                        Lines& lines) {
  std::erase_if(cells, [](const Confusion& cell) { return cell.label == cell.predicted; });
  std::ranges::stable_sort(cells, [](const auto& a, const auto& b) { return a.rows > b.rows; });
  cells.resize(std::min(cells.size(), kConfusionsTold));
  if (!cells.empty()) lines.push_back("most often taken for another class:");
  for (const Confusion& cell : cells) {
    lines.push_back(
        absl::StrCat("  ", GroupedNumber(cell.rows), cell.rows == 1 ? " row of " : " rows of ",
                     Name(classes[cell.label]), " taken for ", Name(classes[cell.predicted])));
  }
}

}  // namespace

std::vector<std::string> ClassesTable(const JobProgress& job, const Style& style, size_t width) {
  if (!job.server()) return {};
  const Figures& figures = job.holdout() ? *job.holdout() : job.server()->progressive();
  const std::string who = job.holdout() ? "held-out" : "progressive";
  const auto classes = ClassFiguresOf(figures, job.server()->class_name());
  if (classes.empty()) return {};
  Lines lines;
  if (classes.size() > kMostClassesShown) {
    lines.push_back(absl::StrCat(classes.size(),
                                 " classes: precision, recall and F1 of each are in ",
                                 "the JSON (--summary, --json)"));
  } else {
    lines.push_back(absl::StrCat("by class, ", who, ":"));
    AddPrecisions(classes, style, lines);
  }
  const std::vector<Confusion> cells = ConfusionsOf(figures);
  if (classes.size() > kMostClassesShown || !AddMatrix(classes, cells, style, width, lines)) {
    AddWorstConfusions(classes, cells, lines);
  }
  for (std::string& line : lines) line = Clipped(line, width);
  return lines;
}

}  // namespace millrace
