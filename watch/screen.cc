#include "watch/screen.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "watch/figures_table.h"
#include "watch/phrases.h"
#include "watch/program_ages.h"
#include "watch/terminal_text.h"
#include "watch/warning_lines.h"

namespace millrace {
namespace {

using Lines = std::vector<std::string>;

constexpr size_t kIndent = 2;
constexpr size_t kTimeColumns = 17;   // "100 %  12:34 left"
constexpr size_t kRowsColumns = 29;   // "310,979 of about 310,000 rows"
constexpr size_t kTableWorkers = 24;  // more are told as ranges,
constexpr size_t kTableGroups = 12;   // and so are more groups of servers

void Append(Lines& lines, Lines more) {
  std::move(more.begin(), more.end(), std::back_inserter(lines));
}

Lines Indented(Lines lines) {
  for (std::string& line : lines) line.insert(0, kIndent, ' ');
  return lines;
}

class Screen {
 public:
  Screen(const JobProgress& job, const ScreenOptions& options)
      : job_(job),
        options_(options),
        style_(options.style),
        columns_(std::min(options.columns, kMaxColumns)),
        width_(columns_ > kIndent ? columns_ - kIndent : 0) {}

  Lines Render() const {
    const Lines head = Title();
    const Lines stream = Indented(Stream());
    Lines numbers = Indented(Numbers());
    Lines brief_numbers = numbers;
    Append(numbers, Indented(Warnings()));
    Append(brief_numbers, Indented(BriefWarnings()));
    const Lines warning = Indented(QualityWarning(job_, style_, width_));
    const Lines figures = Indented(FiguresTable(job_, style_, width_));
    const Lines workers = Indented(Workers(kTableWorkers));
    const Lines few_workers = Indented(Workers(0));
    const Lines groups = Indented(Groups(kTableGroups));
    const Lines few_groups = Indented(Groups(0));
    const Lines curves = Indented(Curves());
    // From the fullest to the barest; the first that is not too high.
    for (const auto& sections :
         {std::vector<Lines>{head, stream, numbers, warning, workers, groups, figures, curves},
          {head, stream, numbers, warning, few_workers, groups, figures, curves},
          {head, stream, numbers, warning, few_workers, few_groups, figures},
          {head, stream, numbers, warning, figures},
          {head, stream, brief_numbers, warning, figures}}) {
      for (const bool spaced : {true, false}) {
        const Lines lines = Joined(sections, spaced);
        if (lines.size() <= options_.rows) return Fitted(lines);
      }
    }
    Lines lines = Joined({stream, warning, brief_numbers, figures}, false);
    lines.resize(std::min(lines.size(), options_.rows));
    return Fitted(lines);
  }

 private:
  Lines Fitted(Lines lines) const {
    if (!options_.cut) return lines;
    for (std::string& line : lines) line = Clipped(line, columns_);
    return lines;
  }

  static Lines Joined(const std::vector<Lines>& sections, bool spaced) {
    Lines lines;
    for (const Lines& section : sections) {
      if (section.empty()) continue;
      if (spaced && !lines.empty()) lines.emplace_back();
      Append(lines, section);
    }
    return lines;
  }

  Lines Title() const {
    std::string left = Inked(style_, Ink::kBold, "Millrace") + "  " + options_.job;
    if (!job_.server()) return {left};
    const Training& training = job_.server()->training();
    const std::string separator = style_.unicode ? " · " : ", ";
    const std::string right =
        absl::StrCat(ScheduleName(training), separator, ConsistencyName(training), separator,
                     LearnerName(training));
    const size_t used = ColumnsOf(left) + ColumnsOf(right);
    if (used + 2 > columns_) return {left};
    return {left + std::string(columns_ - used, ' ') + Inked(style_, Ink::kDim, right)};
  }

  Lines Stream() const {
    if (job_.last_timestamp_ms() == 0) {
      return {NoFiguresText(options_.state, options_.waited_seconds)};
    }
    Lines lines;
    const auto share = job_.stream_share();
    const std::optional<double> left = running() ? job_.seconds_left() : std::nullopt;
    std::string text;
    if (share) {
      absl::StrAppend(&text, absl::StrFormat("%3.0f %%", std::floor(100 * share->learnt)));
      if (left) absl::StrAppend(&text, "  ", ClockTime(*left), " left");
      text = PaddedRight(text, kTimeColumns);
    }
    // Padded, so that the bar keeps its length.
    const std::string rows = PaddedRight(RowsText(share), kRowsColumns);
    const size_t room = ColumnsOf(text) + 2 + ColumnsOf(rows) + 2;
    constexpr size_t kLeastBar = 12;
    if (share && room + kLeastBar <= width_) {
      lines.push_back(absl::StrCat(Bar(style_, share->learnt, share->sent, width_ - room), "  ",
                                   text, "  ", Inked(style_, Ink::kDim, rows)));
    } else {
      if (share) {
        const size_t used = ColumnsOf(text) + 2;
        lines.push_back(
            absl::StrCat(Bar(style_, share->learnt, share->sent, width_ > used ? width_ - used : 0),
                         "  ", text));
      }
      lines.push_back(rows);
    }
    Append(lines, State());
    return lines;
  }

  bool running() const { return options_.state.kind == JobState::Kind::kRunning; }

  // What the job does, and when its programs were last heard from.
  Lines State() const {
    const JobState& state = options_.state;
    if (state.kind == JobState::Kind::kEnded) return {};
    Lines lines;
    if (!running()) {
      lines.push_back(Inked(style_, Ink::kWarn, StateText(state)));
    }
    lines.push_back(Inked(style_, Ink::kDim, absl::StrCat("heard from: ", AgesText(state))));
    return lines;
  }

  std::string RowsText(const std::optional<JobProgress::StreamShare>& share) const {
    const uint64_t rows = job_.rows_tested();
    std::string text = GroupedNumber(rows);
    if (share && share->rows > 0) {
      const bool exact = job_.producer()->ended();
      absl::StrAppend(&text, exact ? " of " : " of about ",
                      GroupedNumber(Rounded(share->rows, exact)));
    }
    absl::StrAppend(&text, " rows");
    if (job_.producer() && job_.producer()->epochs_of_stream() > 1) {
      absl::StrAppend(&text, ", pass ", job_.producer()->epoch_of_stream(), " of ",
                      job_.producer()->epochs_of_stream());
    }
    return text;
  }

  // An estimate does not flicker in its last digits.
  static uint64_t Rounded(uint64_t rows, bool exact) {
    uint64_t unit = 1;
    while (!exact && rows / unit >= 100) unit *= 10;
    return (rows + unit / 2) / unit * unit;
  }

  // "name value" pairs, as many on a line as fit.
  Lines Numbers() const {
    if (!job_.server()) return {};
    const JobProgress::ServerPoint& server = *job_.server();
    std::vector<std::string> pairs;
    const auto pair = [&](const char* name, const std::string& value) {
      pairs.push_back(absl::StrCat(Inked(style_, Ink::kDim, name), " ", value));
    };
    const auto rate = [&](std::optional<double> recent, std::optional<double> whole) {
      return job_.ended() ? whole : (running() ? recent : 0);
    };
    const auto rows = rate(job_.recent_rows_per_second(), job_.rows_per_second());
    const auto rounds = rate(job_.recent_rounds_per_second(), job_.rounds_per_second());
    pair("rows/s", PaddedRight(Inked(style_, Ink::kBold, RateText(rows)), 7));
    pair("rounds/s", PaddedRight(Inked(style_, Ink::kBold, RateText(rounds)), 6));
    pair("rounds", PaddedRight(GroupedNumber(server.rounds()), 6));
    pair("staleness", PaddedRight(absl::StrCat(server.staleness()), 2));
    // What a crash now would have to learn again.
    if (!job_.ended()) {
      pair("unsaved updates", PaddedRight(GroupedNumber(server.unsaved_updates()), 4));
    }
    if (server.training().model() != Training::EXTERNAL) {  // whose trainers do not tell
      pair("training loss", absl::StrFormat("%.3f", server.train_loss()));
    }
    if (const auto duration = job_.duration_seconds()) pair("time", ClockTime(*duration));

    Lines lines;
    for (const std::string& text : pairs) {
      if (!lines.empty() && ColumnsOf(lines.back()) + 3 + ColumnsOf(text) <= width_) {
        absl::StrAppend(&lines.back(), "   ", text);
      } else {
        lines.push_back(text);
      }
    }
    if (const std::string replaced = ReplacedText(job_); !replaced.empty()) {
      lines.push_back(Inked(style_, Ink::kDim, replaced));
    }
    return lines;
  }

  Lines Warnings() const {
    Lines lines = WarningLines(WarningsOf(job_), width_);
    for (std::string& line : lines) line = Inked(style_, Ink::kWarn, line);
    return lines;
  }

  // Where there is no room for remedies.
  Lines BriefWarnings() const {
    const std::string texts = WarningTexts(WarningsOf(job_));
    return texts.empty() ? Lines() : Lines{Inked(style_, Ink::kWarn, texts)};
  }

  // A column for each worker, in as many rows of columns as are needed; one line of ranges when
  // there are more than `most` workers.
  Lines Workers(int most) const {
    if (!job_.server() || job_.server()->workers_size() == 0) return {};
    const auto& workers = job_.server()->workers();
    if (workers.size() > most) return {WorkerRanges()};
    size_t cell = 5;
    for (const WorkerProgress& worker : workers) {
      cell = std::max(
          {cell, GroupedNumber(worker.clock()).size(), GroupedNumber(worker.buffer_rows()).size()});
    }
    constexpr size_t kName = 7;
    const size_t per_row = width_ > kName + cell + 2 ? (width_ - kName) / (cell + 2) : 1;
    Lines lines;
    for (int begin = 0; begin < workers.size(); begin += static_cast<int>(per_row)) {
      const int end = std::min(workers.size(), begin + static_cast<int>(per_row));
      std::string ids = "worker ";
      std::string clocks = Inked(style_, Ink::kDim, "clock  ");
      std::string buffers = Inked(style_, Ink::kDim, "buffer ");
      for (int i = begin; i < end; ++i) {
        const WorkerProgress& worker = workers[i];
        const auto padded = [cell](const std::string& text) { return PaddedLeft(text, cell + 2); };
        absl::StrAppend(&ids, padded(absl::StrCat(worker.worker())));
        absl::StrAppend(&clocks, padded(GroupedNumber(worker.clock())));
        const std::string buffer = worker.left() ? "left" : GroupedNumber(worker.buffer_rows());
        absl::StrAppend(&buffers,
                        worker.left() ? Inked(style_, Ink::kDim, padded(buffer)) : padded(buffer));
      }
      lines.push_back(Inked(style_, Ink::kDim, ids));
      lines.push_back(clocks);
      lines.push_back(buffers);
    }
    return lines;
  }

  std::string WorkerRanges() const {
    const auto& workers = job_.server()->workers();
    const auto range = [&](const auto& value) {
      const auto [low, high] =
          std::minmax_element(workers.begin(), workers.end(),
                              [&](const auto& a, const auto& b) { return value(a) < value(b); });
      const std::string least = GroupedNumber(value(*low));
      const std::string most = GroupedNumber(value(*high));
      return least == most ? least : absl::StrCat(least, " to ", most);
    };
    const auto left = std::count_if(workers.begin(), workers.end(),
                                    [](const WorkerProgress& worker) { return worker.left(); });
    std::string line = absl::StrCat(
        workers.size(), " workers: clock ",
        range([](const WorkerProgress& worker) -> uint64_t { return worker.clock(); }), ", buffer ",
        range([](const WorkerProgress& worker) -> uint64_t { return worker.buffer_rows(); }));
    if (left > 0) absl::StrAppend(&line, ", ", left, " left");
    return line;
  }

  // A column for each group of servers, or ranges when there are more than `most`.
  Lines Groups(size_t most) const {
    const std::vector<GroupProgress> groups = job_.groups();
    if (groups.empty()) return {};
    constexpr size_t kName = 9;
    constexpr size_t kCell = 10;  // of the largest numbers there are, as a rule
    if (groups.size() > most || kName + groups.size() * kCell > width_)
      return {GroupRanges(groups)};
    const auto row = [&](const char* name, const auto& cell) {
      std::string line = Inked(style_, Ink::kDim, PaddedRight(name, kName));
      for (const GroupProgress& group : groups) {
        absl::StrAppend(&line, PaddedLeft(cell(group), kCell));
      }
      return line;
    };
    // The primary exchanges with nobody: others do with it.
    const auto of_others = [](uint64_t GroupProgress::*number) {
      return [number](const GroupProgress& group) {
        return group.group == 0 ? std::string("-") : GroupedNumber(group.*number);
      };
    };
    return {row("group", [](const GroupProgress& group) { return absl::StrCat(group.group); }),
            row("rounds", [](const GroupProgress& group) { return GroupedNumber(group.rounds); }),
            row("exchanges", of_others(&GroupProgress::exchanges)),
            row("unshared", of_others(&GroupProgress::unshared_updates))};
  }

  static std::string GroupRanges(const std::vector<GroupProgress>& groups) {
    const auto range = [&](uint64_t GroupProgress::*number, bool with_primary) {
      std::optional<uint64_t> least, most;
      for (const GroupProgress& group : groups) {
        if (group.group == 0 && !with_primary) continue;
        least = std::min(least.value_or(group.*number), group.*number);
        most = std::max(most.value_or(group.*number), group.*number);
      }
      if (!least) return std::string("-");
      return *least == *most ? GroupedNumber(*least)
                             : absl::StrCat(GroupedNumber(*least), " to ", GroupedNumber(*most));
    };
    return absl::StrCat(groups.size(), " groups: rounds ", range(&GroupProgress::rounds, true),
                        ", exchanges ", range(&GroupProgress::exchanges, false),
                        ", unshared updates ", range(&GroupProgress::unshared_updates, false));
  }

  Lines Curves() const {
    const bool holdout = job_.curve(CurvePoint::Kind::kHoldout).points().size() > 1;
    const LearningCurve& curve =
        job_.curve(holdout ? CurvePoint::Kind::kHoldout : CurvePoint::Kind::kProgressive);
    if (curve.points().size() < 3) return {};
    const bool auc = curve.points().back().figures.has_auc();
    const bool regression = curve.points().back().figures.has_rmse();
    const std::string who = holdout ? "held-out " : "progressive ";
    const auto score = [auc](const Figures& f) { return auc ? f.auc() : f.accuracy(); };
    const auto loss = [](const Figures& f) { return f.log_loss(); };
    using Named = std::pair<std::string, std::function<double(const Figures&)>>;
    std::vector<Named> shown = {{who + (auc ? "AUC" : "accuracy"), score},
                                {who + "log loss", loss}};
    if (regression) shown = {{who + "RMSE", [](const Figures& f) { return f.rmse(); }}};
    size_t name = 0;
    for (const auto& [title, figure] : shown) name = std::max(name, title.size());
    Lines lines;
    for (const auto& [title, figure] : shown) {
      const std::string ends = absl::StrCat(FigureText(figure(curve.points().front().figures)),
                                            style_.unicode ? " → " : " -> ",
                                            FigureText(figure(curve.points().back().figures)));
      const size_t used = name + 2 + 2 + ColumnsOf(ends);
      if (used + 8 > width_) return {};
      const std::string line =
          Sparkline(style_, curve.Sampled(std::min<size_t>(width_ - used, 48), figure));
      lines.push_back(absl::StrCat(Inked(style_, Ink::kDim, PaddedRight(title, name)), "  ",
                                   Inked(style_, Ink::kAccent, line), "  ", ends));
    }
    return lines;
  }

  const JobProgress& job_;
  const ScreenOptions& options_;
  const Style style_;
  const size_t columns_;
  const size_t width_;  // of what is indented
};

}  // namespace

std::vector<std::string> RenderScreen(const JobProgress& job, const ScreenOptions& options) {
  return Screen(job, options).Render();
}

}  // namespace millrace
