#include "runtime/checkpoint.h"

#include <algorithm>
#include <iterator>

#include "base/big_endian.h"
#include "base/check.h"

namespace millrace {

void Checkpoint::EncodeRows() {
  if (rows.size() == 0) return;
  std::vector<Entry> others = std::exchange(entries, {});
  entries.reserve(rows.size() + others.size());
  rows.Encode([this](std::string key, std::string value) {
    entries.push_back({std::move(key), std::move(value)});
  });
  std::ranges::move(others, std::back_inserter(entries));
}

WriteBatch BatchOf(std::vector<Checkpoint::Entry> entries, std::optional<Offset> parameters_end) {
  WriteBatch batch;
  for (Checkpoint::Entry& entry : entries) {
    batch.Put(std::move(entry.key), std::move(entry.value));
  }
  if (parameters_end) {
    batch.Put(kParametersOffsetKey, EncodeBigEndian64(static_cast<uint64_t>(*parameters_end)));
  }
  return batch;
}

Status CheckpointRun::Step() {
  switch (next_) {
    case Next::kCommit: {
      checkpoint_.EncodeRows();
      MILLRACE_ASSIGN_OR_RETURN(parameters_end_, log_.CommitTransaction(checkpoint_));
      // Whatever fails from here on: they have been delivered.
      checkpoint_.dead_letters.clear();
      next_ = Next::kStore;
      return absl::OkStatus();
    }
    case Next::kStore: {
      MILLRACE_RETURN_IF_ERROR(
          store_.Write(BatchOf(std::exchange(checkpoint_.entries, {}), parameters_end_)));
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
