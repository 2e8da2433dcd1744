#include "job/evaluation_log.h"

#include <cerrno>
#include <cinttypes>
#include <cstring>

namespace millrace {

StatusOr<std::unique_ptr<EvaluationLog>> EvaluationLog::Open(const std::string& path,
                                                             bool with_rows_seen) {
  std::FILE* file = std::fopen(path.c_str(), "a");
  if (file == nullptr) {
    return absl::UnavailableError("the evaluation log " + path +
                                  " cannot be written: " + std::strerror(errno));
  }
  std::unique_ptr<EvaluationLog> log(new EvaluationLog(file));
  if (std::fseek(file, 0, SEEK_END) == 0 && std::ftell(file) == 0) {
    std::fprintf(file, "timestamp;partition;vectorClock;loss;fMeasure;accuracy%s\n",
                 with_rows_seen ? ";numTuplesSeen" : "");
  }
  return log;
}

EvaluationLog::~EvaluationLog() { std::fclose(file_); }

void EvaluationLog::Write(int64_t timestamp_ms, uint32_t partition, Clock clock,
                          const EvaluationFigures& figures, std::optional<uint64_t> rows_seen) {
  std::fprintf(file_, "%" PRId64 ";%u;%" PRIu64 ";%.6f;%.6f;%.6f", timestamp_ms, partition, clock,
               figures.log_loss, figures.f1_weighted, figures.accuracy);
  if (rows_seen) std::fprintf(file_, ";%" PRIu64, *rows_seen);
  std::fputc('\n', file_);
  std::fflush(file_);
}

}  // namespace millrace
