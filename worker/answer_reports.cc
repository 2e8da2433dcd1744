#include "worker/answer_reports.h"

#include <spdlog/spdlog.h>

#include <bit>
#include <utility>

namespace millrace {

void ReportUnusableAnswers(const WorkerTask& task) {
  if (!std::has_single_bit(task.unusable_answers())) return;
  spdlog::warn(
      "worker {}: {} messages of weights cannot be used, and go to dead-letter; the last: {}. "
      "Check that no other program writes to weights, and that all programs have the same "
      "version",
      task.worker(), task.unusable_answers(), task.last_unusable_answer());
}

void ReportDeniedLeaves(const WorkerTask& task, uint64_t& said) {
  const uint64_t denied = task.denied_leaves();
  if (std::exchange(said, denied) == denied || !std::has_single_bit(denied)) return;
  spdlog::warn(
      "worker {}: a message of weights said that this worker has left, which the server denies "
      "({} so far); the worker goes on. Check that no other program writes to weights",
      task.worker(), denied);
}

}  // namespace millrace
