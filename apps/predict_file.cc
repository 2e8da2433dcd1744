#include "apps/predict_file.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "apps/model_figures.h"
#include "apps/program.h"
#include "base/atomic_file.h"
#include "features/csv_format.h"
#include "formats/reject_file.h"
#include "predictor/score_file.h"
#include "producer/progress_display.h"

namespace millrace {
namespace {

// Bar and lines of CsvProducer: the rows that are scored take the place of those that are sent.
class Progress {
 public:
  explicit Progress(bool quiet) : display_(quiet) {}

  void Show(const CsvFile& file, const FileScores& so_far) {
    ProducerProgress progress;
    progress.set_bytes_read(file.bytes_read());
    progress.set_bytes_total(file.total_bytes().value_or(0));
    progress.set_rows_read(so_far.rows + so_far.rejected);
    progress.set_rows_sent(so_far.rows);
    progress.set_rows_rejected(so_far.rejected);
    display_.Show(std::chrono::steady_clock::now(), progress, false);
  }
  ProgressDisplay& display() { return display_; }

 private:
  ProgressDisplay display_;
};

// In words, when a model is worse than one that knows nothing of the features.
void WarnOf(const std::string& name, const nlohmann::ordered_json& figures,
            ProgressDisplay& display) {
  const nlohmann::ordered_json& warning = figures.at(kWorseThanPrior);
  if (warning.is_string()) display.Warn(name + warning.get<std::string>());
}

Status SayFigures(const FeatureSpec& features, const FileScores& scores, bool has_challenger,
                  const std::string& path, ProgressDisplay& display) {
  if (scores.labelled.rows == 0) {
    if (has_challenger) {
      return absl::FailedPreconditionError(
          "--challenger: no row has a label and can be used by both models, so they were not "
          "compared; the output is complete");
    }
    if (path.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError("--figures: no row has a label");
  }
  nlohmann::ordered_json json = ModelFiguresJson(scores.labelled, features);
  if (has_challenger) {
    nlohmann::ordered_json other = ModelFiguresJson(scores.challenger, features);
    display.Say("of the rows with a label:");
    for (const std::string& line : FiguresSideBySide(json, other)) display.Say(line);
    WarnOf("model: ", json, display);
    WarnOf("challenger: ", other, display);
    json = {{"model", std::move(json)}, {"challenger", std::move(other)}};
  } else {
    nlohmann::ordered_json brief = nlohmann::ordered_json::object();
    for (const auto& [name, value] : json.items()) {
      if (value.is_number()) brief[name] = value;
    }
    display.Say("of the rows with a label: " + brief.dump());
    WarnOf("", json, display);
  }
  return path.empty() ? absl::OkStatus() : WriteAtomicFile(path, json.dump(2) + "\n");
}

// "1 row is", "12 rows are"
std::string Counted(uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? " is" : "s are");
}

bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code unknown;  // then they are none
  if (std::filesystem::equivalent(a, b, unknown)) {
    return std::filesystem::is_regular_file(a, unknown);
  }
  const auto whole = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, unknown), unknown);
  };
  return whole(a) == whole(b);
}

// None may be written over another one.
Status CheckFiles(const PredictorFlags& flags, const std::string& rejects) {
  const std::pair<const char*, std::string> files[] = {{"--input", flags.input},
                                                       {"--output", flags.output},
                                                       {"--reject-file", rejects},
                                                       {"--figures", flags.figures}};
  for (size_t i = 0; i < std::size(files); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const std::string& a = files[i].second;
      const std::string& b = files[j].second;
      if (a.empty() || b.empty() || a == "-" || b == "-" || !IsSameFile(a, b)) continue;
      return absl::InvalidArgumentError(std::string(files[i].first) + " is the same file as " +
                                        files[j].first + ": " + a);
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status PredictFile(const PredictorFlags& flags, const std::shared_ptr<const ModelScorer>& model,
                   const std::shared_ptr<const ModelScorer>& challenger,
                   const std::atomic<bool>& stop) {
  CsvFormat format;
  if (!flags.delimiter.empty()) format.set_delimiter(flags.delimiter);
  format.set_encoding(flags.encoding == "latin1" ? CsvFormat::LATIN1 : CsvFormat::UTF8);
  ScoreFileOptions options{.challenger = challenger, .contributions = flags.contributions};
  MILLRACE_RETURN_IF_ERROR(ApplyCsvFormat(format, &options.csv));
  options.csv.stop = &stop;
  const std::string path =
      flags.reject_file.empty() ? DefaultRejectPath(flags.input) : flags.reject_file;
  MILLRACE_RETURN_IF_ERROR(CheckFiles(flags, path));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RejectFile> rejects,
                            RejectFile::Create(path, flags.input));
  MILLRACE_RETURN_IF_ERROR(rejects->Accept());
  Progress progress(flags.quiet);
  const StatusOr<FileScores> scored = ScoreFile(
      model, flags.input, options, flags.output, *rejects,
      [&](const CsvFile& file, const FileScores& so_far) { progress.Show(file, so_far); });
  MILLRACE_RETURN_IF_ERROR(NotOfUsage(scored.status()));
  const FileScores& scores = *scored;
  ProgressDisplay& display = progress.display();
  if (scores.rejected > 0) {
    display.Warn(Counted(scores.rejected, "row") + " of no use, and in " + path +
                 " instead of the output; the first: " + scores.first_reject);
  }
  if (scores.rows == 0) display.Warn(flags.input + " has no rows");
  if (scores.unknown_labels > 0) {
    display.Warn(
        Counted(scores.unknown_labels, "label") +
        " not known to the model, and in no figure; the first: " + scores.first_unknown_label);
  }
  if (scores.not_compared > 0) {
    display.Warn(Counted(scores.not_compared, "row") +
                 " of no use to the challenger, and in no figure of either model; the first: " +
                 scores.first_not_compared);
  }
  display.Say(Counted(scores.rows, "row") +
              " scored: " + (flags.output == "-" ? "standard output" : flags.output));
  return SayFigures(model->model().description.features(), scores, challenger != nullptr,
                    flags.figures, display);
}

}  // namespace millrace
