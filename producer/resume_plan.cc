#include "producer/resume_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "topics/row_origin.h"

namespace millrace {
namespace {

Status OtherInput(std::string_view topic, uint32_t partition, const std::string& difference) {
  return absl::FailedPreconditionError(absl::StrCat(
      absl::string_view(topic.data(), topic.size()), " [", partition,
      "] holds rows of another input: ", difference,
      "; give the input and flags that it was started with, or start a new job (another --job)"));
}

}  // namespace

StatusOr<PartitionTail> TailOfRecord(std::string_view key, std::string_view value,
                                     const RowShape& shape) {
  const std::optional<InputKey> rows = DecodeInputKey(key);
  if (!rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("a key of ", key.size(), " bytes is not that of rows"));
  }
  InputRecord record;
  MILLRACE_RETURN_IF_ERROR(DecodeInput(*rows, value, shape, record));
  if (record.has_flush())
    return absl::NotFoundError("a flush, which tells less than the rows before");
  PartitionTail tail;
  tail.rows = rows->end();
  tail.ended = record.has_end();
  MILLRACE_ASSIGN_OR_RETURN(tail.source, DecodeSourceState(value));
  if (tail.ended) {
    tail.fingerprint = record.end().fingerprint();
    return tail;
  }
  RowBatchReader reader;
  reader.Begin(record.rows(), shape);
  reader.Skip(rows->count - 1);
  Row last;
  MILLRACE_RETURN_IF_ERROR(reader.Next(last));
  tail.last_value = EncodeRow(last);
  return tail;
}

ResumePlan::ResumePlan(std::vector<PartitionTail> tails, const Dealing& dealing)
    : tails_(std::move(tails)), dealing_(dealing) {
  MILLRACE_CHECK(dealing.workers >= 1 && dealing.workers <= tails_.size());
}

bool ResumePlan::fresh() const {
  // The others may have ended: that is sent before the first row.
  return std::all_of(tails_.begin(), tails_.begin() + dealing_.workers,
                     [](const PartitionTail& tail) { return !tail.ended; }) &&
         rows_present() == 0;
}

bool ResumePlan::all_ended() const {
  return std::all_of(tails_.begin(), tails_.end(),
                     [](const PartitionTail& tail) { return tail.ended; });
}

uint64_t ResumePlan::rows_present() const {
  uint64_t rows = 0;
  for (const PartitionTail& tail : tails_) rows += tail.rows;
  return rows;
}

ResumePlan::Action ResumePlan::ActionFor(RowPlace place) const {
  const PartitionTail& tail = tails_[place.worker];
  if (place.row >= tail.rows) return tail.ended ? Action::kAfterEnd : Action::kSend;
  return place.row + 1 == tail.rows && !tail.ended ? Action::kCheck : Action::kSkip;
}

Status ResumePlan::Check(RowPlace place, std::string_view value, std::string_view topic) const {
  if (value == tails_[place.worker].last_value) return absl::OkStatus();
  return OtherInput(
      topic, place.worker,
      absl::StrCat("its last row, ", uint64_t{place.row}, ", differs from that row of this input"));
}

Status ResumePlan::CheckFingerprint(WorkerId worker, uint64_t fingerprint,
                                    std::string_view topic) const {
  const PartitionTail& tail = tails_[worker];
  if (!tail.ended || tail.fingerprint == 0 || tail.fingerprint == fingerprint) {
    return absl::OkStatus();
  }
  return OtherInput(topic, worker,
                    absl::StrCat("as many as this input gives (", uint64_t{tail.rows},
                                 "), and the end of the stream, but not all of them are equal"));
}

Status ResumePlan::CheckEnd(uint64_t rows, std::string_view topic) const {
  for (WorkerId worker = 0; worker < workers(); ++worker) {
    const PartitionTail& tail = tails_[worker];
    const RowNumber expected = RowsOfWorker(rows, worker, dealing());
    if (tail.rows > expected || (tail.ended && tail.rows != expected)) {
      return OtherInput(topic, worker,
                        absl::StrCat("it has ", uint64_t{tail.rows},
                                     tail.ended ? " rows and the end of the stream" : " rows",
                                     ", but this input gives ", uint64_t{expected}));
    }
  }
  return absl::OkStatus();
}

Status ResumePlan::CheckFollowed(uint64_t rows, std::string_view topic) const {
  for (WorkerId worker = 0; worker < dealing().workers; ++worker) {
    const PartitionTail& tail = tails_[worker];
    if (tail.ended) {
      return absl::FailedPreconditionError(absl::StrCat(
          absl::string_view(topic.data(), topic.size()), " [", uint32_t{worker},
          "] holds the end of the stream, which a run without --follow has sent; further lines "
          "need a new job (another --job)"));
    }
    const RowNumber expected = RowsOfWorker(rows, worker, dealing());
    if (tail.rows <= expected) continue;
    return OtherInput(
        topic, worker,
        absl::StrCat("it has ", uint64_t{tail.rows}, " rows, but the file that is followed gives ",
                     uint64_t{expected}, " so far; it was truncated or replaced"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
