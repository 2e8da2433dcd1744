#include "job/evaluation_log.h"

#include <fcntl.h>

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/private_file.h"

namespace millrace {

namespace {

std::string Header(bool with_rows_seen) {
  return absl::StrCat("timestamp;partition;vectorClock;loss;fMeasure;accuracy",
                      with_rows_seen ? ";numTuplesSeen" : "",
                      ";rmse;prior_rmse;mae;r2;auc;pr_auc;calibration_error");
}

}  // namespace

StatusOr<std::unique_ptr<EvaluationLog>> EvaluationLog::Open(const std::string& path,
                                                             bool with_rows_seen) {
  const std::string header = Header(with_rows_seen);
  std::string first_line;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    std::ifstream before(path);
    std::getline(before, first_line);
    if (!first_line.empty() && first_line != header) {
      return absl::FailedPreconditionError(
          "the evaluation log " + path +
          " has other columns: give another file (--evaluation-log)");
    }
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd >= 0) MakePrivate(fd);  // it may exist
  std::FILE* const file = fd < 0 ? nullptr : fdopen(fd, "a");
  if (file == nullptr) {
    return absl::UnavailableError("the evaluation log " + path +
                                  " cannot be written: " + std::strerror(errno));
  }
  std::unique_ptr<EvaluationLog> log(new EvaluationLog(file));
  if (first_line.empty()) std::fprintf(file, "%s\n", header.c_str());
  return log;
}

EvaluationLog::~EvaluationLog() { std::fclose(file_); }

void EvaluationLog::Write(int64_t timestamp_ms, uint32_t partition, Clock clock,
                          const EvaluationFigures& figures, std::optional<uint64_t> rows_seen) {
  using Cell = std::optional<double>;
  const bool regression = figures.rmse.has_value();
  const auto put = [this](const Cell& value) {
    std::fputs(value ? absl::StrFormat(";%.6f", *value).c_str() : ";", file_);
  };
  std::fprintf(file_, "%" PRId64 ";%u;%" PRIu64, timestamp_ms, partition, uint64_t{clock});
  for (const double of_classes : {figures.log_loss, figures.f1_weighted, figures.accuracy}) {
    put(regression ? Cell() : of_classes);
  }
  if (rows_seen) std::fprintf(file_, ";%" PRIu64, *rows_seen);
  put(figures.rmse);
  put(regression ? Cell(figures.prior_rmse) : Cell());
  for (const Cell& value :
       {figures.mae, figures.r2, figures.auc, figures.pr_auc, figures.calibration_error}) {
    put(value);
  }
  std::fputs("\n", file_);
  std::fflush(file_);
}

}  // namespace millrace
