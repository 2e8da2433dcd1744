#include "processors/leased_rows.h"

#include <string>

#include "base/check.h"
#include "topics/lease_codec.h"

namespace millrace {
namespace {

uint64_t FirstNumberOf(const WorkerLeases& leases) {
  return leases.next_number() - static_cast<uint64_t>(leases.open_size());
}

RowNumber FirstRowOf(const WorkerLeases& leases) {
  return RowNumber(leases.open_size() > 0 ? leases.open(0).first_row() : leases.next_row());
}

RowWindow WindowOf(const Lease& lease) {
  return {.partition = lease.range().partition(),
          .begin = RowNumber(lease.range().begin()),
          .end = RowNumber(lease.range().end()),
          .first = RowNumber(lease.first_row())};
}

}  // namespace

LeasedRows::LeasedRows(const WorkerLeases& leases, const RowShape& shape, BatchSource& source,
                       bool reasons_only, const std::vector<InputState>& tails)
    : input_(InputDataProcessor::OfWindows(FirstRowOf(leases), shape, source, reasons_only)),
      next_number_(FirstNumberOf(leases)),
      next_row_(FirstRowOf(leases)) {
  const StatusOr<bool> followed = Follow(leases, tails);
  MILLRACE_CHECK(followed.ok() && *followed);
}

StatusOr<bool> LeasedRows::Follow(const WorkerLeases& leases,
                                  const std::vector<InputState>& tails) {
  // Shard 0 has counted what this one has not seen, or not read.
  const uint64_t next_to_read = leases_.empty() ? next_number_ : leases_.front().number();
  if (FirstNumberOf(leases) > next_to_read) return false;
  for (const Lease& lease : leases.open()) {
    if (lease.number() >= next_number_) MILLRACE_RETURN_IF_ERROR(Take(lease));
  }
  if (leases.last() && !is_last_) {
    is_last_ = true;
    tails_.assign(tails.begin(), tails.end());
  }
  GoOn();
  return true;
}

Status LeasedRows::Take(const Lease& lease) {
  if (lease.first_row() != next_row_ || is_last_) {
    return absl::InvalidArgumentError("lease " + std::to_string(lease.number()) +
                                      " begins at row " + std::to_string(lease.first_row()) +
                                      ", but those before end " +
                                      (is_last_ ? "the stream" : "elsewhere"));
  }
  leases_.push_back(lease);
  ++next_number_;
  next_row_ = RowNumber(EndRowOf(lease));
  return absl::OkStatus();
}

void LeasedRows::GoOn() {
  if (!input_.window_is_done() || in_tail_) return;
  if (!leases_.empty()) {
    next_offset_ = Offset(leases_.front().range().offset());
    input_.Begin(WindowOf(leases_.front()));
  } else if (!tails_.empty()) {
    const InputState& tail = tails_.front();
    input_.BeginBehind(tail.partition(), RowNumber(tail.cut_row()));
    next_offset_ = Offset(tail.cut_offset());
    in_tail_ = true;
  } else if (is_last_) {
    input_.EndWindows();
  }
}

std::optional<LeasedRows::Place> LeasedRows::next() const {
  if (in_tail_) {
    const InputState& tail = tails_.front();
    return Place{next_number_ + tail.partition(), tail.partition(), next_offset_};
  }
  if (leases_.empty()) return std::nullopt;
  const Lease& lease = leases_.front();
  return Place{lease.number(), lease.range().partition(), next_offset_};
}

Status LeasedRows::Process(const InputDataRecord& record) {
  MILLRACE_CHECK(!leases_.empty() || in_tail_);
  if (record.offset < next_offset_) return absl::OkStatus();
  if (in_tail_) return ProcessTail(record);
  MILLRACE_RETURN_IF_ERROR(input_.Process(record));
  next_offset_ = record.offset + 1;
  if (!input_.window_is_done()) return absl::OkStatus();
  leases_.pop_front();
  GoOn();
  return absl::OkStatus();
}

Status LeasedRows::ProcessTail(const InputDataRecord& record) {
  MILLRACE_ASSIGN_OR_RETURN(const bool is_end, input_.ProcessBehind(record));
  next_offset_ = record.offset + 1;
  if (!is_end) return absl::OkStatus();
  tails_.pop_front();
  in_tail_ = false;
  GoOn();
  return absl::OkStatus();
}

}  // namespace millrace
