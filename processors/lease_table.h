// Which rows of input-data each worker has, of a job that leases them: a part of the master's fold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/types.h"
#include "messages/leases.pb.h"

namespace millrace {

// Updates of a worker that shard 0 may have while another shard has not: those that may be in
// flight (PipelineOf), unless it is the only shard.
inline size_t UpdatesAhead(uint32_t shards, size_t pipeline) { return shards > 1 ? pipeline : 0; }
// The most leases that a worker should have open: one that it has begun, the next, and one for the
// wait. If each is of a single batch, those of the updates that shard 0 may have ahead are not done
// either.
uint32_t OpenLeases(uint32_t shards, size_t pipeline);

// That the job is to have so many workers; what shard 0 is told (Gradient.Resize).
struct ResizeOrder {
  uint64_t number = 0;  // of the changes, from 1
  uint32_t workers = 0;
  bool operator==(const ResizeOrder&) const = default;
};

// A fold of commands about leases. Pure; not thread-safe.
//
// Partitions are cut into ranges of rows, each row once. The oldest free range goes to the worker
// with the fewest rows that shard 0 has not counted, as long as it has room for a lease; of these
// to the one that has been given the fewest rows since a worker last joined, so that workers of
// equal speed have equal shares even where rows are rare (one that joins has no earlier rows to
// catch up with); then to the first one. (That other shards have counted a worker's last
// rows, too, is known only when it has had more.) A worker's leases stand one behind the other in a
// numbering of its own. So its batches are those of a partition of its own, and the shards count
// them as such: a lease is done when all of them have counted its last row, and who says so late or
// again changes nothing. (A worker that begins anew may owe some shards an update that others
// have.)
//
// The number of workers may change. Who is to go gets through with its leases, which are told to be
// its last, and leaves as at the end of the rows. Who is to come gets leases when shard 0 has let
// it in; it may have left before, and then its numbering goes on. One change at a time.
class LeaseTable {
 public:
  using Workers = std::map<uint32_t, WorkerLeases>;  // by worker
  using Inputs = std::map<uint32_t, InputState>;     // by partition
  using Free = std::deque<InputRange>;

  // REQUIRES CheckLeaseCommand. What was said before changes nothing. InvalidArgument, and nothing
  // changes: a beginning with other numbers than the first, a worker or partition that is not
  // there, a cut that leaves rows out, one behind the end, one too many, an end that is not at the
  // last cut, more rows of a worker than it was given, a change to more workers than there may be,
  // or while another is under way, or behind the end of all rows.
  Status Apply(const LeaseCommand& command);

  // Before the beginning there are no workers and no inputs, and no free ranges.
  bool has_begun() const { return !workers_.empty(); }
  const Workers& workers() const { return workers_; }
  const Inputs& inputs() const { return inputs_; }
  const Free& free() const { return free_; }
  // Behind the highest number of a worker that there was.
  uint32_t workers_end() const { return has_begun() ? workers_.rbegin()->first + 1 : 0; }
  // Those that have left since the job is to have fewer, until they come again. (Who leaves at the
  // end of all rows is none of them.)
  std::set<uint32_t> IdleWorkers() const;
  // How many workers the job is to have, and may have; 0 before the beginning.
  uint32_t size() const { return size_; }
  uint32_t most_workers() const { return most_workers_; }
  // Whether all rows are cut and given, and no further ones will come.
  bool is_over() const { return has_begun() && IsOver(); }
  // Whether some of these have not come, or some of those before have not left.
  bool IsResizing() const;
  // What shard 0 is to be told, until it has said that it is done.
  std::optional<ResizeOrder> order() const;
  // All rows that have been cut, of all partitions.
  uint64_t cut_rows() const;
  // Whether there is too little for workers that get through with theirs: more is to be cut. Never
  // before the half of what may be free is free.
  bool WantsCuts() const;
  // Nobody will read records of the partition before it. (Other readers need the one before it,
  // which has the last row: WorkerTask::TrimPosition.) REQUIRES that there is the partition.
  Offset NeededFrom(uint32_t partition) const;

  // What has changed since the last call.
  std::set<uint32_t> TakeChangedWorkers() { return std::exchange(changed_workers_, {}); }
  std::set<uint32_t> TakeChangedInputs() { return std::exchange(changed_inputs_, {}); }
  bool TakeFreeChanged() { return std::exchange(free_changed_, false); }
  FreeLeases SaveFree() const;

  // REQUIRES a new table. `free`: null when there is no such record. InvalidArgument with the
  // reason why this was never saved.
  Status Load(Workers workers, Inputs inputs, const FreeLeases* free);
  // What always holds; else InvalidArgument.
  Status Check() const;

 private:
  static constexpr size_t kFreePerWorker = 2;

  Status Begin(const LeaseCommand::Begin& begin);
  Status Cut(const LeaseCommand::Cut& cut);
  Status End(const LeaseCommand::End& end);
  Status Count(const LeaseCommand::Counted& counted);
  Status CheckCount(const LeaseCommand::Counted::Worker& said) const;
  void Take(const LeaseCommand::Counted::Worker& said);
  void BeginEqualShares();
  Status Resize(const LeaseCommand::Resize& resize);
  // The partition's state; InvalidArgument: there is none.
  StatusOr<InputState*> InputOf(uint32_t partition);
  // Gives out what can be given, and tells the workers of the end.
  void Deal();
  WorkerLeases* NextToGet();  // null: nobody has room
  bool IsOver() const;        // all is cut and given
  void End();                 // tells the workers so
  Status CheckSize() const;
  Status CheckSums() const;
  Status CheckRanges() const;

  Workers workers_;
  Inputs inputs_;
  Free free_;
  uint32_t open_leases_ = 0;  // that a worker may have; 0: before the beginning
  uint32_t size_ = 0;         // workers that the job is to have
  uint32_t most_workers_ = 0;
  uint64_t resize_ = 0;   // the number of the last change that was ordered,
  uint64_t resized_ = 0;  // and of the last that shard 0 has carried out
  std::set<uint32_t> changed_workers_;
  std::set<uint32_t> changed_inputs_;
  bool free_changed_ = false;
};

}  // namespace millrace
