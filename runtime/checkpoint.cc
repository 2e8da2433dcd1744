#include "runtime/checkpoint.h"

#include "base/big_endian.h"
#include "base/check.h"

namespace millrace {

WriteBatch BatchOf(const std::vector<Checkpoint::Entry>& entries,
                   std::optional<Offset> parameters_end) {
  WriteBatch batch;
  for (const Checkpoint::Entry& entry : entries) batch.Put(entry.key, entry.value);
  if (parameters_end) {
    batch.Put(kParametersOffsetKey, EncodeBigEndian64(static_cast<uint64_t>(*parameters_end)));
  }
  return batch;
}

Status CheckpointRun::Step() {
  switch (next_) {
    case Next::kCommit: {
      MILLRACE_ASSIGN_OR_RETURN(parameters_end_, log_.CommitTransaction(checkpoint_));
      // Whatever fails from here on: they have been delivered.
      checkpoint_.dead_letters.clear();
      next_ = Next::kStore;
      return absl::OkStatus();
    }
    case Next::kStore: {
      MILLRACE_RETURN_IF_ERROR(store_.Write(BatchOf(checkpoint_.entries, parameters_end_)));
      MILLRACE_RETURN_IF_ERROR(store_.Flush());
      next_ = Next::kTrim;
      return absl::OkStatus();
    }
    case Next::kTrim:
      // The record in front of the position stays: recovery recognises the log by it.
      if (checkpoint_.position > 0) {
        MILLRACE_RETURN_IF_ERROR(log_.TrimGradients(checkpoint_.position - 1));
      }
      next_ = Next::kNothing;
      return absl::OkStatus();
    case Next::kNothing:
      return absl::OkStatus();
  }
  MILLRACE_CHECK(false);
}

}  // namespace millrace
