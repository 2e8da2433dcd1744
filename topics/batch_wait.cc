#include "topics/batch_wait.h"

namespace millrace {

double BatchWaitOf(const Training& training) {
  constexpr double kDefault = 1;
  if (training.schedule() == Training::BUFFER) return 0;  // its batches are what there is
  if (training.has_batch_wait_s()) {
    const double wait_s = training.batch_wait_s();
    return wait_s > 0 ? wait_s : 0;  // NaN, which anybody may publish, is no wait
  }
  // Bytes of a sequential job are those of its rows, whenever they come.
  const bool is_sequential = training.consistency().model() == Training::Consistency::SEQUENTIAL;
  return is_sequential ? 0 : kDefault;
}

}  // namespace millrace
