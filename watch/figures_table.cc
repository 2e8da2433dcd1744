#include "watch/figures_table.h"

#include <algorithm>
#include <functional>

#include "topics/figures_verdict.h"

namespace millrace {
namespace {

struct Column {
  const char* title;
  std::function<std::string(const Figures&)> figure;
  std::function<std::string(const Figures&)> prior;  // of the same rows
};

constexpr size_t kNameColumns = 12;
constexpr size_t kGap = 2;

// The most telling first.
std::vector<Column> Columns(bool regression) {
  const auto none = [](const Figures&) { return std::string(); };
  if (regression) {
    return {
        {"  RMSE", [](const Figures& f) { return FigureText(f.rmse()); },
         [](const Figures& f) { return FigureText(f.prior_rmse()); }},
        {"   MAE", [](const Figures& f) { return f.has_mae() ? FigureText(f.mae()) : "-"; }, none},
        {"    R2", [](const Figures& f) { return f.has_r2() ? FigureText(f.r2()) : "-"; },
         [](const Figures& f) { return f.has_r2() ? FigureText(0) : ""; }},
        {"     rows", [](const Figures& f) { return GroupedNumber(f.rows()); }, none}};
  }
  return {
      {"accuracy", [](const Figures& f) { return FigureText(f.accuracy()); },
       [](const Figures& f) { return FigureText(f.prior_accuracy()); }},
      {"log loss", [](const Figures& f) { return FigureText(f.log_loss()); },
       [](const Figures& f) { return FigureText(f.prior_log_loss()); }},
      {"   AUC", [](const Figures& f) { return f.has_auc() ? FigureText(f.auc()) : ""; },
       [](const Figures& f) { return f.has_auc() ? FigureText(0.5) : ""; }},
      {"PR-AUC", [](const Figures& f) { return f.has_pr_auc() ? FigureText(f.pr_auc()) : ""; },
       [](const Figures& f) { return f.has_pr_auc() ? FigureText(f.prior_pr_auc()) : ""; }},
      {"F1 macro", [](const Figures& f) { return FigureText(f.f1_macro()); }, none},
      {"     rows", [](const Figures& f) { return GroupedNumber(f.rows()); }, none},
      {"   ECE",
       [](const Figures& f) {
         return f.has_calibration_error() ? FigureText(f.calibration_error()) : "-";
       },
       none},
      {"F1 weighted", [](const Figures& f) { return FigureText(f.f1_weighted()); }, none},
  };
}

class Table {
 public:
  Table(const Style& style, size_t width, bool with_auc, bool regression)
      : style_(style), regression_(regression) {
    size_t used = kNameColumns;
    for (Column& column : Columns(regression)) {
      const bool of_two = std::string(column.title).ends_with("AUC");
      if (!with_auc && of_two) continue;
      const size_t needed = kGap + std::max<size_t>(std::string(column.title).size(), 6);
      if (used + needed > width) break;
      used += needed;
      columns_.push_back(std::move(column));
    }
    std::string header(kNameColumns, ' ');
    for (const Column& column : columns_) header += Cell(column, column.title);
    lines_.push_back(Inked(style_, Ink::kDim, header));
  }

  void Add(const std::string& name, const Figures& figures) {
    const bool better = !IsWorseThanPrior(figures);
    std::string line = PaddedRight(name, kNameColumns);
    std::string prior = PaddedRight(regression_ ? " mean" : " class prior", kNameColumns);
    for (const Column& column : columns_) {
      const std::string cell = Cell(column, column.figure(figures));
      const bool judged =
          regression_ ? !column.prior(figures).empty() : column.title == std::string("log loss");
      line += judged ? Inked(style_, better ? Ink::kGood : Ink::kWarn, cell) : cell;
      prior += Cell(column, column.prior(figures));
    }
    lines_.push_back(line);
    prior.erase(prior.find_last_not_of(' ') + 1);
    lines_.push_back(Inked(style_, Ink::kDim, prior));
  }

  std::vector<std::string> TakeLines() { return std::move(lines_); }

 private:
  static std::string Cell(const Column& column, const std::string& text) {
    const size_t columns = std::max<size_t>(std::string(column.title).size(), 6);
    return std::string(kGap, ' ') + PaddedLeft(text, columns);
  }

  const Style style_;
  const bool regression_;
  std::vector<Column> columns_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> FiguresTable(const JobProgress& job, const Style& style, size_t width) {
  const bool progressive = job.server() && job.server()->progressive().rows() > 0;
  if (!progressive && !job.holdout()) return {};
  const bool with_auc = (progressive && job.server()->progressive().has_auc()) ||
                        (job.holdout() && job.holdout()->has_auc());
  const bool regression =
      progressive ? job.server()->progressive().has_rmse() : job.holdout()->has_rmse();
  Table table(style, width, with_auc, regression);
  if (progressive) table.Add("progressive", job.server()->progressive());
  if (job.server() && job.server()->window().rows() > 0) {
    table.Add("last window", job.server()->window());
  }
  if (job.holdout()) table.Add("held-out", *job.holdout());
  if (job.server() && job.server()->tail().rows() > 0) table.Add("tail", job.server()->tail());
  std::vector<std::string> lines = table.TakeLines();
  for (std::string& line : lines) line = Clipped(line, width);
  return lines;
}

}  // namespace millrace
