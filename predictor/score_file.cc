#include "predictor/score_file.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/interruptible_output.h"
#include "features/csv_columns.h"
#include "features/number.h"
#include "features/quoted_value.h"
#include "formats/csv_cell.h"
#include "predictor/challenger_scorer.h"
#include "predictor/contributions.h"
#include "predictor/prediction_text.h"
#include "predictor/row_scorer.h"

namespace millrace {
namespace {

// Also by its names in the file system: these are links, in whose place no file must be put.
bool IsStdout(std::string_view path) {
  return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

// A file, which is there when it is complete; or standard output, or what else is no regular file,
// which is written to as it is.
class Output {
 public:
  // true in `stop`: see InterruptibleOutput. Outlives the output.
  static StatusOr<Output> Open(const std::string& path, const std::atomic<bool>& stop) {
    if (IsStdout(path)) return Output(std::nullopt, nullptr, InterruptibleOutput::OfStdout(stop));
    std::error_code error;
    const std::filesystem::file_status there = std::filesystem::status(path, error);
    const bool is_special = std::filesystem::exists(there) &&
                            !std::filesystem::is_regular_file(there) &&
                            !std::filesystem::is_directory(there);
    if (is_special) {
      MILLRACE_ASSIGN_OR_RETURN(const int fd, OpenInterruptibly(path, stop));
      File special(fdopen(fd, "wb"));
      MILLRACE_CHECK(special != nullptr);
      return Output(std::nullopt, std::move(special), InterruptibleOutput(fd, path, stop));
    }
    MILLRACE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
    return Output(std::move(file), nullptr, std::nullopt);
  }

  Status Append(std::string_view text) {
    return file_ ? file_->Append(text) : stream_->Write(text);
  }
  Status Finish() { return file_ ? file_->Commit() : absl::OkStatus(); }

 private:
  Output(std::optional<AtomicFile> file, File special, std::optional<InterruptibleOutput> stream)
      : file_(std::move(file)), special_(std::move(special)), stream_(std::move(stream)) {}

  std::optional<AtomicFile> file_;
  File special_;                               // closes what is no standard output
  std::optional<InterruptibleOutput> stream_;  // without file_
};

const std::atomic<bool>& StopOf(const ScoreFileOptions& options) {
  static const std::atomic<bool> never = false;
  return options.csv.stop != nullptr ? *options.csv.stop : never;
}

// `added`: the columns that the output has behind those of the file.
Status CheckNewColumns(const std::vector<std::string>& added, const CsvFile& file) {
  for (auto column = added.begin(); column != added.end(); ++column) {
    if (std::find(added.begin(), column, *column) != column) {
      return absl::InvalidArgumentError(
          absl::StrCat("two columns of the output would be called ", QuotedValue(*column),
                       ": contributions (--contributions) of such a model cannot be told apart"));
    }
    if (std::ranges::find(file.columns(), *column) == file.columns().end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file.name(), " has a column '", *column,
                     "' already, as one of the predictions is called: rename it"));
  }
  return absl::OkStatus();
}

// What predicts the rows with a label beside the model.
class FileChallenger {
 public:
  static StatusOr<FileChallenger> Create(const ModelScorer& model,
                                         std::shared_ptr<const ModelScorer> challenger,
                                         const CsvFile& file) {
    MILLRACE_ASSIGN_OR_RETURN(ChallengerScorer scorer,
                              ChallengerScorer::Create(model, std::move(challenger)));
    const std::string& label = scorer.rows().encoder().required_columns()[0];
    if (std::ranges::find(file.columns(), label) == file.columns().end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.name(), " has no column ", QuotedValue(label),
                       ", the label, by which a challenger (--challenger) is compared"));
    }
    MILLRACE_ASSIGN_OR_RETURN(CsvColumns columns,
                              CsvColumns::Find(scorer.rows().encoder(), file.columns(),
                                               absl::StrCat("--challenger: ", file.name())));
    return FileChallenger(std::move(scorer), std::move(columns));
  }

  // Adds one of the model's rows.
  Status Add(const CsvRecord& record, size_t row) {
    MILLRACE_ASSIGN_OR_RETURN(const auto cells, columns_.Select(record.fields));
    MILLRACE_RETURN_IF_ERROR(scorer_.rows().Add(cells.subspan(1)));
    rows_.push_back(row);
    return absl::OkStatus();
  }
  // Those that were added, ascending.
  std::span<const size_t> rows() const { return rows_; }
  std::span<const float> Score() { return scorer_.Score(); }
  void Clear() {
    scorer_.rows().Clear();
    rows_.clear();
  }

 private:
  FileChallenger(ChallengerScorer scorer, CsvColumns columns)
      : scorer_(std::move(scorer)), columns_(std::move(columns)) {}

  ChallengerScorer scorer_;
  CsvColumns columns_;
  std::vector<size_t> rows_;
};

class FileScorer {
 public:
  FileScorer(RowScorer scorer, std::optional<FileChallenger> challenger,
             std::optional<Contributions> contributions, PredictionText text, CsvFile& file,
             CsvColumns columns, Output& output, RejectSink& rejects)
      : scorer_(std::move(scorer)),
        challenger_(std::move(challenger)),
        contributions_(std::move(contributions)),
        text_(std::move(text)),
        file_(file),
        columns_(std::move(columns)),
        classes_(scorer_.model().model().description.shape().classes()),
        output_(output),
        rejects_(rejects) {}

  // `added`: the columns behind those of the file.
  Status WriteHeader(const std::vector<std::string>& added) {
    for (const std::string& column : file_.columns()) {
      if (!out_.empty()) out_ += file_.delimiter();
      AppendCell(column, file_.delimiter(), &out_);
    }
    for (const std::string& column : added) {
      out_ += file_.delimiter();
      AppendCell(column, file_.delimiter(), &out_);
    }
    out_ += '\n';
    return WriteOut();
  }

  Status Add(const CsvRecord& record) {
    const size_t before = scorer_.rows();
    const Status added = record.ok() ? AddRow(record) : absl::InvalidArgumentError(record.error);
    if (!added.ok()) {
      scorer_.Shrink(before);
      if (contributions_) parts_.resize(before);
      return Reject(record, TextOf(added));
    }
    raw_ += record.raw;
    raw_ends_.push_back(raw_.size());
    return scorer_.rows() == RowScorer::kRowsAtOnce ? Flush() : absl::OkStatus();
  }

  Status Flush() {
    const std::span<const float> scores = scorer_.Score();
    const size_t width = scorer_.score_count();
    for (size_t i = 0; i < scorer_.rows(); ++i) {
      const std::span<const float> of_row = scores.subspan(i * width, width);
      const size_t begin = i > 0 ? raw_ends_[i - 1] : 0;
      out_.append(raw_, begin, raw_ends_[i] - begin);
      text_.AppendCells(of_row, file_.delimiter(), &out_);
      if (contributions_) out_ += parts_[i];
      out_ += '\n';
      const Row* row = scorer_.LabelledRow(i);
      if (row != nullptr && !challenger_) result_.labelled.AddRow(*row, of_row, classes_);
    }
    if (challenger_) AddCompared(scores);
    result_.rows += scorer_.rows();
    scorer_.Clear();
    raw_.clear();
    raw_ends_.clear();
    parts_.clear();
    return WriteOut();
  }

  const FileScores& result() const { return result_; }

 private:
  Status AddRow(const CsvRecord& record) {
    MILLRACE_ASSIGN_OR_RETURN(const std::span<const std::string_view> cells,
                              columns_.Select(record.fields));
    if (!columns_.has_label()) {
      MILLRACE_RETURN_IF_ERROR(scorer_.Add(cells));
      return AddParts(cells);
    }
    Status label;
    MILLRACE_RETURN_IF_ERROR(scorer_.AddLabelled(cells, &label));
    MILLRACE_RETURN_IF_ERROR(AddParts(cells.subspan(1)));
    if (!label.ok() && !TrimSpaces(cells[0]).empty() && result_.unknown_labels++ == 0) {
      result_.first_unknown_label = absl::StrCat("line ", record.line, ": ", label.message());
    }
    if (!label.ok() || !challenger_) return absl::OkStatus();
    const Status added = challenger_->Add(record, scorer_.rows() - 1);
    if (!added.ok() && result_.not_compared++ == 0) {
      result_.first_not_compared = absl::StrCat("line ", record.line, ": ", added.message());
    }
    return absl::OkStatus();
  }

  // Of a row that the scorer has taken.
  Status AddParts(std::span<const std::string_view> cells) {
    if (!contributions_) return absl::OkStatus();
    return contributions_->AppendCells(cells, file_.delimiter(), &parts_.emplace_back());
  }

  void AddCompared(std::span<const float> scores) {
    const size_t width = scorer_.score_count();
    const std::span<const float> theirs = challenger_->Score();
    const std::span<const size_t> rows = challenger_->rows();
    for (size_t i = 0; i < rows.size(); ++i) {
      const Row& row = *scorer_.LabelledRow(rows[i]);
      result_.labelled.AddRow(row, scores.subspan(rows[i] * width, width), classes_);
      result_.challenger.AddRow(row, theirs.subspan(i * width, width), classes_);
    }
    challenger_->Clear();
  }

  Status Reject(const CsvRecord& record, std::string_view reason) {
    if (result_.rejected++ == 0) {
      result_.first_reject =
          absl::StrCat("line ", record.line, ": ", absl::string_view(reason.data(), reason.size()));
    }
    return rejects_.Add({.line = record.line, .reason = reason, .raw = record.raw});
  }

  Status WriteOut() {
    Status written = output_.Append(out_);
    out_.clear();
    return written;
  }

  RowScorer scorer_;
  std::optional<FileChallenger> challenger_;
  std::optional<Contributions> contributions_;
  PredictionText text_;
  CsvFile& file_;
  CsvColumns columns_;
  size_t classes_;
  Output& output_;
  RejectSink& rejects_;
  std::string raw_;  // of the scorer's rows, one after the other
  std::vector<size_t> raw_ends_;
  std::vector<std::string> parts_;  // of the scorer's rows, the cells of contributions_
  std::string out_;
  FileScores result_;
};

}  // namespace

StatusOr<FileScores> ScoreFile(std::shared_ptr<const ModelScorer> model, const std::string& input,
                               const ScoreFileOptions& options, const std::string& output,
                               RejectSink& rejects, const ScoreProgress& progress) {
  PredictionText text(model->model().description.features());
  MILLRACE_ASSIGN_OR_RETURN(RowScorer scorer, RowScorer::Create(std::move(model)));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(input, options.csv));
  MILLRACE_ASSIGN_OR_RETURN(CsvColumns columns,
                            CsvColumns::Find(scorer.encoder(), file->columns(), file->name(),
                                             CsvColumns::Label::kIfThere));
  std::optional<Contributions> contributions;
  if (options.contributions) {
    MILLRACE_ASSIGN_OR_RETURN(Contributions made, Contributions::Create(scorer.shared_model()));
    contributions.emplace(std::move(made));
  }
  std::optional<FileChallenger> challenger;
  if (options.challenger != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(FileChallenger made,
                              FileChallenger::Create(scorer.model(), options.challenger, *file));
    challenger.emplace(std::move(made));
  }
  std::vector<std::string> added = text.columns();
  if (contributions) std::ranges::copy(contributions->columns(), std::back_inserter(added));
  MILLRACE_RETURN_IF_ERROR(CheckNewColumns(added, *file));
  MILLRACE_ASSIGN_OR_RETURN(Output out, Output::Open(output, StopOf(options)));
  FileScorer rows(std::move(scorer), std::move(challenger), std::move(contributions),
                  std::move(text), *file, std::move(columns), out, rejects);
  MILLRACE_RETURN_IF_ERROR(rows.WriteHeader(added));
  CsvRecord record;
  for (uint64_t read = 1;; ++read) {
    MILLRACE_ASSIGN_OR_RETURN(const bool more, file->Next(&record));
    if (!more) break;
    MILLRACE_RETURN_IF_ERROR(rows.Add(record));
    if (read % RowScorer::kRowsAtOnce != 0) continue;
    progress(*file, rows.result());
    if (options.csv.stop != nullptr && *options.csv.stop) {
      return absl::CancelledError("stopped before the end of " + file->name());
    }
  }
  MILLRACE_RETURN_IF_ERROR(rows.Flush());
  const FileScores& scores = rows.result();
  if (scores.rows == 0 && scores.rejected > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no row of ", file->name(), " can be used; the first: ", scores.first_reject));
  }
  MILLRACE_RETURN_IF_ERROR(out.Finish());
  MILLRACE_RETURN_IF_ERROR(rejects.Finish());
  return scores;
}

}  // namespace millrace
