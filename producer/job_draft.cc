#include "producer/job_draft.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/grouped_number.h"
#include "features/csv_format.h"
#include "features/missing_tokens.h"
#include "features/name_list.h"
#include "features/quoted_value.h"
#include "features/time_parts.h"
#include "formats/csv_dialect.h"
#include "producer/column_survey.h"

namespace millrace {
namespace {

constexpr uint64_t kRowsBetweenLooks = 1000;
constexpr size_t kMostCandidates = 8;

struct Sample {
  std::vector<ColumnSurvey> columns;
  char delimiter = ',';
  bool is_latin1 = false;
  uint64_t rows = 0;
  uint64_t malformed = 0;
  std::string first_reason;  // of the malformed ones
  bool is_all = false;       // of the file
};

StatusOr<Sample> ReadSample(const std::string& path, const CsvFile::Options& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path, options));
  Sample sample;
  sample.delimiter = file->delimiter();
  sample.is_latin1 = options.is_latin1;
  for (const std::string& column : file->columns()) sample.columns.emplace_back(column);
  CsvRecord record;
  while (sample.rows < kRowsOfSample) {
    const bool looks = options.stop != nullptr && sample.rows % kRowsBetweenLooks == 0;
    if (looks && *options.stop) return absl::CancelledError("stopped while reading " + path);
    MILLRACE_ASSIGN_OR_RETURN(const bool found, file->Next(&record));
    sample.is_all = !found;
    if (!found) break;
    const bool is_good = record.ok() && record.fields.size() == sample.columns.size();
    if (!is_good && sample.malformed++ == 0) {
      sample.first_reason = absl::StrCat(
          "line ", record.line, ": ",
          record.ok() ? absl::StrCat(record.fields.size(), " fields, but the header has ",
                                     sample.columns.size())
                      : record.error);
    }
    if (!is_good) continue;
    ++sample.rows;
    for (size_t i = 0; i < record.fields.size(); ++i) sample.columns[i].Add(record.fields[i]);
  }
  if (sample.rows > 0) return sample;
  if (sample.malformed == 0) {
    return absl::InvalidArgumentError(file->name() + " has a header but no rows");
  }
  return absl::InvalidArgumentError(
      absl::StrCat(file->name(), ": all rows are malformed; the first: ", sample.first_reason,
                   "; if ", DelimiterName(sample.delimiter),
                   " do not separate its fields, name what does by --delimiter"));
}

// A few damaged cells make no other encoding of a file that is in UTF-8 elsewhere.
bool IsHardlyUtf8(const Sample& sample) {
  uint64_t wrong = 0;
  uint64_t right = 0;
  for (const ColumnSurvey& column : sample.columns) {
    wrong += column.cells_not_in_utf8();
    right += column.cells_beyond_ascii();
  }
  return wrong > right;
}

// What is no UTF-8 is read as latin-1, in which every byte is a character.
StatusOr<Sample> ReadInSomeEncoding(const std::string& path, CsvFile::Options options) {
  StatusOr<Sample> sample = ReadSample(path, options);
  const bool may_be_latin1 =
      sample.ok() ? IsHardlyUtf8(*sample) : absl::IsInvalidArgument(sample.status());
  if (!may_be_latin1 || options.is_latin1 || path == "-") return sample;
  options.is_latin1 = true;
  StatusOr<Sample> latin1 = ReadSample(path, options);
  return latin1.ok() ? std::move(latin1) : std::move(sample);
}

// A text as a string of the text format.
std::string Literal(std::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape({text.data(), text.size()}), "\"");
}

std::string JobNameOf(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  name = name.substr(0, name.find('.'));
  for (char& c : name) {
    const bool is_allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!is_allowed) c = '-';
  }
  return name.empty() || path == "-" ? "my-job" : name;
}

class Draft {
 public:
  Draft(const std::string& path, const JobConfig& config, const Sample& sample)
      : path_(path), config_(config), sample_(sample) {
    const auto& columns = sample.columns;
    const auto commas = std::count_if(columns.begin(), columns.end(),
                                      [](const auto& each) { return each.prefers_commas(); });
    const auto points = std::count_if(columns.begin(), columns.end(),
                                      [](const auto& each) { return each.prefers_points(); });
    decimal_comma_ = config.features().decimal_comma() || commas > points;
  }

  std::string Text() const {
    std::string text = Head();
    absl::StrAppend(&text, "name: ", Literal(JobNameOf(path_)), "\n", Format(), "features {\n",
                    Label(), DecimalComma());
    AddColumns(ColumnType::kNumber, "Numbers.", "numeric", &text);
    AddColumns(ColumnType::kBoolean, "Yes or no, as 1 and 0.", "booleans", &text);
    AddColumns(ColumnType::kTime,
               "Times: of each, .hour, .weekday and .month are categories, and .days a number.",
               "times", &text);
    AddColumns(ColumnType::kCategory, "Categories. A cross of two is one more: \"A*B\".",
               "categorical", &text);
    AddColumns(ColumnType::kId,
               "Ids: each value has a row of weights of its own, however many there are.", "ids",
               &text);
    AddColumns(ColumnType::kText, "Texts, of whose words the features are.", "text", &text);
    absl::StrAppend(&text, MissingTokensText(), LeftOut(), "}\n", ProducerText());
    return text;
  }

 private:
  ColumnType TypeOf(const ColumnSurvey& column) const { return column.TypeOf(decimal_comma_); }
  bool IsLabel(const ColumnSurvey& column) const {
    return column.name() == config_.features().label();
  }

  std::string Head() const {
    std::string text = absl::StrCat("# Proposed by CsvProducer --describe ", path_, ", by ",
                                    sample_.is_all ? "all " : "the first ",
                                    GroupedNumber(sample_.rows), " rows.\n");
    if (sample_.malformed > 0) {
      absl::StrAppend(&text, "# ", GroupedNumber(sample_.malformed),
                      " more are malformed and will be left out; the first: ", sample_.first_reason,
                      "\n");
    }
    if (config_.features().label().empty()) {
      absl::StrAppend(&text,
                      "# Name the label: remove the # before one of the lines below, or give "
                      "--label (and --regression\n# where the line says so).\n");
    }
    return text +
           "# Then start each program with --config and this file: CsvProducer, ServerApp, "
           "WorkerApp.\n"
           "# messages/job.proto documents every field.\n\n";
  }

  std::string Format() const {
    std::vector<std::string> parts;
    if (sample_.delimiter != ',' || config_.csv().has_delimiter()) {
      parts.push_back(absl::StrCat("delimiter: ", Literal({&sample_.delimiter, 1})));
    }
    if (sample_.is_latin1) parts.emplace_back("encoding: LATIN1");
    if (parts.empty()) return "";
    return absl::StrCat("csv { ", absl::StrJoin(parts, " "), " }  # fields separated by ",
                        DelimiterName(sample_.delimiter), "\n");
  }

  std::string DecimalComma() const {
    return decimal_comma_ ? "  decimal_comma: true  # numbers such as 1.234,5\n" : "";
  }

  // Whether it is to be estimated.
  bool IsTarget(const ColumnSurvey& column) const {
    return (IsLabel(column) && config_.features().regression()) ||
           column.MayBeTarget(decimal_comma_);
  }

  std::string LabelLine(const ColumnSurvey& column) const {
    const bool is_target = IsTarget(column);
    return absl::StrCat(
        "label: ", Literal(column.name()),
        is_target ? " regression: true  # a number: " : "  # classes: ",
        is_target ? column.ReasonOf(ColumnType::kNumber, decimal_comma_) : column.Shares(), "\n");
  }

  std::string Label() const {
    std::string text;
    for (const ColumnSurvey& column : sample_.columns) {
      if (IsLabel(column)) return absl::StrCat("  ", LabelLine(column), "\n");
    }
    absl::StrAppend(&text, "  # The label, which is to be predicted:\n");
    std::vector<const ColumnSurvey*> candidates = Candidates();
    for (const ColumnSurvey* column : candidates) {
      absl::StrAppend(&text, "  # ", LabelLine(*column));
    }
    if (candidates.empty()) {
      absl::StrAppend(&text, "  # (no column has 2 to 20 values or is a number)\n");
    }
    return text + "\n";
  }

  // Those that are called like a label first, then the last columns, where most files have it.
  std::vector<const ColumnSurvey*> Candidates() const {
    std::vector<const ColumnSurvey*> named;
    std::vector<const ColumnSurvey*> others;
    for (auto it = sample_.columns.rbegin(); it != sample_.columns.rend(); ++it) {
      if (!it->MayBeClass() && !it->MayBeTarget(decimal_comma_)) continue;
      const bool is_named =
          std::any_of(std::begin(kLabelNames), std::end(kLabelNames),
                      [&](const char* name) { return absl::EqualsIgnoreCase(name, it->name()); });
      (is_named ? named : others).push_back(&*it);
    }
    named.insert(named.end(), others.begin(), others.end());
    if (named.size() > kMostCandidates) named.resize(kMostCandidates);
    return named;
  }

  void AddColumns(ColumnType type, const char* title, const char* field, std::string* text) const {
    const bool has_terms = type == ColumnType::kCategory || type == ColumnType::kId;
    bool is_first = true;
    for (const ColumnSurvey& column : sample_.columns) {
      if (TypeOf(column) != type || IsLabel(column)) continue;
      if (std::exchange(is_first, false)) absl::StrAppend(text, "  # ", title, "\n");
      absl::StrAppend(text, "  ", field, ": ",
                      Literal(has_terms ? TermOfColumn(column.name()) : column.name()), "  # ",
                      column.ReasonOf(type, decimal_comma_), "\n");
    }
  }

  std::string MissingTokensText() const {
    std::set<std::string> words;
    for (const ColumnSurvey& column : sample_.columns) {
      if (IsLabel(column)) continue;
      for (std::string& word : column.OtherWords(TypeOf(column), decimal_comma_)) {
        words.insert(std::move(word));
      }
    }
    if (words.empty()) return "";
    std::string text = "  # Words among the numbers and times, taken for no value:\n";
    for (const std::string& word : words) {
      absl::StrAppend(&text, "  missing_tokens: ", Literal(word), "\n");
    }
    absl::StrAppend(&text, "  # (and those that mean so by default)\n");
    for (const std::string_view token : CommonMissingTokens()) {
      absl::StrAppend(&text, "  missing_tokens: ", Literal(token), "\n");
    }
    return text;
  }

  std::string LeftOut() const {
    std::string text;
    for (const ColumnSurvey& column : sample_.columns) {
      const ColumnType type = TypeOf(column);
      const bool is_useless = type == ColumnType::kConstant || type == ColumnType::kKey;
      if (!is_useless || IsLabel(column)) continue;
      if (text.empty()) text = "  # Left out, since they tell nothing:\n";
      const std::string_view name = NameOf(type);
      absl::StrAppend(&text, "  #   ", QuotedValue(column.name()), ": ",
                      absl::string_view(name.data(), name.size()), ", ",
                      column.ReasonOf(type, decimal_comma_), "\n");
    }
    return text;
  }

  std::string ProducerText() const {
    return absl::StrCat("producer {\n  input: ", Literal(path_),
                        "\n  label_may_be_listed: true  # among the columns above\n}\n");
  }

  static constexpr const char* kLabelNames[] = {"label", "class",   "target",
                                                "y",     "outcome", "response"};

  const std::string& path_;
  const JobConfig& config_;
  const Sample& sample_;
  bool decimal_comma_ = false;
};

}  // namespace

StatusOr<std::string> DraftJob(const std::string& path, const JobConfig& config,
                               const std::atomic<bool>& stop) {
  CsvFile::Options options;
  options.stop = &stop;
  MILLRACE_RETURN_IF_ERROR(ApplyCsvFormat(config.csv(), &options));
  MILLRACE_ASSIGN_OR_RETURN(const Sample sample, ReadInSomeEncoding(path, options));
  if (!config.features().label().empty()) {
    std::vector<std::string> names;
    for (const ColumnSurvey& column : sample.columns) names.push_back(column.name());
    MILLRACE_RETURN_IF_ERROR(FindColumn(names, config.features().label(), path).status());
  }
  return Draft(path, config, sample).Text();
}

}  // namespace millrace
