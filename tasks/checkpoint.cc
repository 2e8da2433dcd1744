#include "tasks/checkpoint.h"

#include <string>
#include <utility>

#include "base/big_endian.h"
#include "base/check.h"

namespace millrace {

size_t Checkpoint::VisitRecords(size_t begin, const FrozenRows::Visit& visit) const {
  bool goes_on = true;
  size_t next = begin;
  if (next < first_expired()) {
    goes_on = visit(kIncarnationKey, incarnation);
    ++next;
  }
  for (; goes_on && next < first_row(); ++next)
    goes_on = visit(expired[next - first_expired()], {});
  const size_t first_entry = first_row() + rows.size();
  if (goes_on && next < first_entry) {
    next += rows.Encode(next - first_row(), [&](std::string_view key, std::string_view value) {
      return goes_on = visit(key, value);
    });
  }
  for (; goes_on && next < records(); ++next) {
    const Entry& entry = entries[next - first_entry];
    goes_on = visit(entry.key, entry.value);
  }
  return next - begin;
}

Status CheckCopyFits(Offset from, Offset end) {
  if (from <= end) return absl::OkStatus();
  return absl::OutOfRangeError("ends at offset " + std::to_string(end) +
                               ", but this copy has read up to offset " + std::to_string(from));
}

StatusOr<Offset> ReadParametersOffset(const OrderedByteMap& store) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                            store.Get(kParametersOffsetKey));
  if (!value) return 0;
  const std::optional<uint64_t> offset = DecodeBigEndian64(*value);
  if (!offset)
    return absl::DataLossError(
        "its offset of parameters is not 8 bytes long: the store is damaged. Move its folder away "
        "and start again; its content is read again from Kafka");
  return static_cast<Offset>(*offset);
}

Status ProposeIncarnation(OrderedByteMap& store, uint64_t number) {
  MILLRACE_ASSIGN_OR_RETURN(const Offset read, ReadParametersOffset(store));
  MILLRACE_CHECK(read == 0);
  MILLRACE_ASSIGN_OR_RETURN(const std::string present, ReadIncarnation(store));
  if (!present.empty()) return absl::OkStatus();
  WriteBatch batch;
  batch.Put(kIncarnationKey, EncodeBigEndian64(number));
  MILLRACE_RETURN_IF_ERROR(store.Write(batch));
  return store.Flush();
}

StatusOr<std::string> ReadIncarnation(const OrderedByteMap& store) {
  MILLRACE_ASSIGN_OR_RETURN(std::optional<std::string> value, store.Get(kIncarnationKey));
  return std::move(value).value_or("");
}

Status CheckIncarnation(std::string_view copys, std::string_view first_key,
                        std::string_view first_value) {
  const std::string_view topics = first_key == kIncarnationKey ? first_value : std::string_view();
  if (copys == topics) return absl::OkStatus();
  return absl::OutOfRangeError("begins with another checkpoint than this copy's first one");
}

Status CheckFollows(Offset end, size_t records, Offset previous_end) {
  // (Strangers' records between them only put the first one further back.)
  if (end - static_cast<Offset>(records) >= previous_end) return absl::OkStatus();
  return absl::DataLossError(
      "parameters: " + std::to_string(records) + " records of a checkpoint would end at offset " +
      std::to_string(end) + ", but the one before ended at " + std::to_string(previous_end) +
      ": the topic was deleted and recreated while this server ran. The server stops; its data "
      "folder has what the topic lost: keep it, and see docs/failures.md");
}

WriteBatch BatchOf(std::vector<Checkpoint::Entry> entries, std::optional<Offset> parameters_end) {
  WriteBatch batch;
  for (Checkpoint::Entry& entry : entries) {
    if (entry.value.empty()) {
      batch.Delete(std::move(entry.key));
    } else {
      batch.Put(std::move(entry.key), std::move(entry.value));
    }
  }
  if (parameters_end) {
    batch.Put(kParametersOffsetKey, EncodeBigEndian64(static_cast<uint64_t>(*parameters_end)));
  }
  return batch;
}

Status CheckpointRun::Step() {
  has_no_answer_ = false;
  Status status = TakeStep();
  has_failed_ = !status.ok() && !has_no_answer_;
  return status;
}

Checkpoint CheckpointRun::TakeCheckpoint() {
  MILLRACE_CHECK(done() || has_failed_);
  return std::move(checkpoint_);
}

Status CheckpointRun::TakeStep() {
  switch (next_) {
    case Next::kPrepare:
      checkpoint_.rows.SortById();
      MILLRACE_RETURN_IF_ERROR(Sweep());
      next_ = Next::kCommit;
      [[fallthrough]];
    case Next::kCommit:
      return Commit();
    case Next::kStore: {
      MILLRACE_ASSIGN_OR_RETURN(const bool was_last, StoreSome());
      if (!was_last) return absl::OkStatus();
      MILLRACE_RETURN_IF_ERROR(store_.Flush());
      next_ = Next::kTrim;
      return absl::OkStatus();
    }
    case Next::kTrim:
      // The record before the position stays: recovery recognises the log by it.
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

// More rows than have come since the last time, so that the store is gone through however fast it
// grows; and some, so that it is when it does not.
Status CheckpointRun::Sweep() {
  constexpr size_t kSome = 1024;
  if (checkpoint_.sweep == nullptr) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(
      checkpoint_.expired,
      checkpoint_.sweep->Next(store_, checkpoint_.time_ms, kSome + 2 * checkpoint_.rows.size()));
  return absl::OkStatus();
}

Status CheckpointRun::Commit() {
  MILLRACE_ASSIGN_OR_RETURN(const Offset previous_end, ReadParametersOffset(store_));
  if (previous_end == 0) {
    MILLRACE_ASSIGN_OR_RETURN(checkpoint_.incarnation, ReadIncarnation(store_));
  }
  const StatusOr<Offset> end = log_.CommitTransaction(checkpoint_, previous_end);
  has_no_answer_ = IsAway(end.status());
  MILLRACE_RETURN_IF_ERROR(end.status());
  parameters_end_ = *end;
  // Whatever fails from here on: they have been delivered.
  checkpoint_.dead_letters.clear();
  next_ = Next::kStore;
  return absl::OkStatus();
}

StatusOr<bool> CheckpointRun::StoreSome() {
  // (An expired row that has been recreated stands before the run and in it: never in one batch.)
  const size_t run_at = HasRun() ? checkpoint_.first_row() : checkpoint_.records();
  if (HasRun() && stored_ == run_at) {
    MILLRACE_RETURN_IF_ERROR(StoreRun());
    return false;  // the offset counts all of it, and comes after it
  }
  std::vector<Checkpoint::Entry> entries;
  size_t bytes = 0;
  stored_ += checkpoint_.VisitRecords(stored_, [&](std::string_view key, std::string_view value) {
    bytes += key.size() + value.size();
    entries.push_back({std::string(key), std::string(value)});
    return bytes < most_batch_bytes_ && stored_ + entries.size() != run_at;
  });
  const bool is_last = stored_ == checkpoint_.records();
  const std::optional<Offset> end = is_last ? std::optional(parameters_end_) : std::nullopt;
  MILLRACE_RETURN_IF_ERROR(store_.Write(BatchOf(std::move(entries), end)));
  return is_last;
}

Status CheckpointRun::StoreRun() {
  MILLRACE_RETURN_IF_ERROR(store_.WriteSortedRun([this](const OrderedByteMap::Take& take) {
    Status taken = absl::OkStatus();
    checkpoint_.rows.Encode(0, [&](std::string_view key, std::string_view value) {
      taken = take(key, value);
      return taken.ok();
    });
    return taken;
  }));
  stored_ += checkpoint_.rows.size();
  return absl::OkStatus();
}

}  // namespace millrace
