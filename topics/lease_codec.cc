#include "topics/lease_codec.h"

#include <algorithm>
#include <set>
#include <string>

#include "topics/figures_codec.h"
#include "topics/message_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

Status BadLease(const std::string& reason) { return absl::InvalidArgumentError(reason); }

Status CheckPartition(uint32_t partition) {
  return CheckAtMost("a partition of input-data:", partition, kMostWorkers - 1);
}

Status CheckOffset(int64_t offset) {
  if (offset >= 0 && offset <= kMostLeaseOffset) return absl::OkStatus();
  return BadLease("offset " + std::to_string(offset) + " of input-data is out of range");
}

Status CheckRowRange(uint64_t begin, uint64_t end) {
  if (begin >= end) return BadLease("a range of rows that has none");
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("the end of a range of rows:", end, kMostLeaseNumber));
  return CheckAtMost("rows of a range:", end - begin, kMostLeaseRows);
}

Status CheckBegin(const LeaseCommand::Begin& begin) {
  if (begin.workers() == 0 || begin.partitions() == 0) {
    return BadLease("leases for no workers, or of no partitions");
  }
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("workers:", begin.workers(), kMostWorkers));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("partitions of input-data:", begin.partitions(), kMostWorkers));
  if (begin.most_workers() != 0 && begin.most_workers() < begin.workers()) {
    return BadLease("leases for more workers than there may be");
  }
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("workers:", begin.most_workers(), kMostWorkers));
  return CheckOpenLeases(begin.open_leases());
}

Status CheckCounted(const LeaseCommand::Counted& counted) {
  std::set<uint32_t> workers;
  for (const LeaseCommand::Counted::Worker& worker : counted.worker()) {
    MILLRACE_RETURN_IF_ERROR(CheckAtMost("a worker:", worker.worker(), kMostWorkers - 1));
    MILLRACE_RETURN_IF_ERROR(CheckAtMost("counted rows:", worker.rows(), kMostLeaseNumber));
    MILLRACE_RETURN_IF_ERROR(
        CheckAtMost("rows that shard 0 has counted:", worker.taken(), kMostLeaseNumber));
    MILLRACE_RETURN_IF_ERROR(CheckAtMost("a clock:", worker.clock(), kMostClock));
    MILLRACE_RETURN_IF_ERROR(
        CheckAtMost("the clock at which a worker joined:", worker.joined(), worker.clock()));
    if (workers.insert(worker.worker()).second) continue;
    return BadLease("the rows of worker " + std::to_string(worker.worker()) + " twice");
  }
  return CheckAtMost("a change of the workers:", counted.resize(), kMostResize);
}

Status CheckResize(const LeaseCommand::Resize& resize) {
  if (resize.workers() == 0) return BadLease("a job cannot have 0 workers: the least is 1");
  return CheckAtMost("workers:", resize.workers(), kMostWorkers);
}

}  // namespace

Status CheckLeaseCommand(const LeaseCommand& command) {
  switch (command.what_case()) {
    case LeaseCommand::kBegin:
      return CheckBegin(command.begin());
    case LeaseCommand::kCut:
      MILLRACE_RETURN_IF_ERROR(CheckPartition(command.cut().partition()));
      MILLRACE_RETURN_IF_ERROR(CheckRowRange(command.cut().begin(), command.cut().end()));
      return CheckOffset(command.cut().next_offset());
    case LeaseCommand::kEnd:
      MILLRACE_RETURN_IF_ERROR(CheckPartition(command.end().partition()));
      return CheckAtMost("rows of a partition:", command.end().rows(), kMostLeaseNumber);
    case LeaseCommand::kCounted:
      return CheckCounted(command.counted());
    case LeaseCommand::kResize:
      return CheckResize(command.resize());
    case LeaseCommand::WHAT_NOT_SET:
      break;
  }
  return BadLease("a command of an unknown kind about leases");
}

Status CheckOpenLeases(uint32_t most) {
  if (most == 0) return BadLease("leases for workers that may have none");
  return CheckAtMost("open leases of a worker:", most, kMostOpenLeases);
}

Status CheckInputRange(const InputRange& range) {
  MILLRACE_RETURN_IF_ERROR(CheckPartition(range.partition()));
  MILLRACE_RETURN_IF_ERROR(CheckRowRange(range.begin(), range.end()));
  return CheckOffset(range.offset());
}

Status CheckInputState(const InputState& input) {
  MILLRACE_RETURN_IF_ERROR(CheckPartition(input.partition()));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows that were cut:", input.cut_row(), kMostLeaseNumber));
  return CheckOffset(input.cut_offset());
}

Status CheckWorkerLeases(const WorkerLeases& leases) {
  const std::string of_worker = " of worker " + std::to_string(leases.worker());
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("a worker:", leases.worker(), kMostWorkers - 1));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("rows" + of_worker + ":", leases.next_row(), kMostLeaseNumber));
  MILLRACE_RETURN_IF_ERROR(  // each has a row
      CheckAtMost("leases" + of_worker + ":", leases.next_number(), leases.next_row()));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("the clock" + of_worker + ":", leases.clock(), kMostClock));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost(
      "the clock at which worker " + std::to_string(leases.worker()) + " joined:", leases.joined(),
      leases.clock()));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost(
      "workers that read what is behind the last rows:", leases.tail_readers(), kMostWorkers));
  for (const JoinedWorker& other : leases.joined_workers()) {
    MILLRACE_RETURN_IF_ERROR(CheckAtMost("a worker:", other.worker(), kMostWorkers - 1));
    MILLRACE_RETURN_IF_ERROR(CheckAtMost("a clock:", other.clock(), kMostClock));
  }
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("counted rows" + of_worker + ":",
                                       std::max(leases.counted_rows(), leases.taken_rows()),
                                       leases.next_row()));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("rows before equal shares" + of_worker + ":",
                                       leases.shares_from(), leases.next_row()));
  const auto open = static_cast<uint64_t>(leases.open_size());
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("open leases" + of_worker + ":", open, kMostOpenLeases));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("open leases" + of_worker + ":", open, leases.next_number()));
  // From the last to the first: each ends where the next one begins.
  uint64_t number = leases.next_number();
  uint64_t row = leases.next_row();
  for (int i = leases.open_size() - 1; i >= 0; --i) {
    const Lease& lease = leases.open(i);
    MILLRACE_RETURN_IF_ERROR(CheckInputRange(lease.range()));
    const bool follows = lease.number() == --number && lease.first_row() <= row &&
                         RowsOf(lease.range()) == row - lease.first_row();
    if (!follows) return BadLease("the leases" + of_worker + " do not follow one another");
    row = lease.first_row();
  }
  if (leases.counted_rows() < row) {
    return BadLease("rows" + of_worker + " are not counted, and it has no lease of them");
  }
  if (leases.open_size() > 0 && leases.counted_rows() >= EndRowOf(leases.open(0))) {
    return BadLease("a lease" + of_worker + " is open, and all of its rows are counted");
  }
  return absl::OkStatus();
}

}  // namespace millrace
