// Consumers: one with partitions given by hand, one in a group. librdkafka is included in kafka/
// only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/options.h"
#include "kafka/record_header.h"
#include "kafka/wakeup.h"

namespace millrace {

// A record as received; key, value and headers are valid during the callback only. A key or value
// without data is Kafka's null.
struct ConsumedRecord {
  int32_t partition = 0;
  Offset offset = 0;
  int64_t timestamp_ms = 0;
  std::string_view key{};
  std::string_view value{};
  // In their order, if ConsumerHandler.wants_headers; none where they cannot be read.
  std::span<const RecordHeader> headers{};
};

struct ConsumerOptions {
  std::string client_id{};
  std::string group_id{};  // of a GroupConsumer only
  bool read_committed = false;
  // Bounds on what is fetched ahead, over all partitions of this consumer. (Small queues are only
  // fast with a short back-off when they are full; the implementation sets it.)
  size_t queue_kbytes = 16384;
  // How long a broker holds a request for records while there are none: a reader at rest costs one
  // request in this time. Records end the wait at once; but a partition that is assigned while
  // others of the same consumer rest waits for its turn, and so does on_end.
  std::chrono::milliseconds fetch_wait{10};
  double session_timeout_s = 6;  // group consumers
  // PartitionConsumer: each partition has a queue of its own, which `queue_kbytes` is for, so that
  // it can be held. Not with on_connection_lost.
  bool holds_partitions = false;
  // Group consumers: whether the group gives the partitions. False: Read does, and the group only
  // keeps the positions.
  bool joins_group = true;
  // Group consumers: a member that neither polls nor calls ReportProgress for this long loses its
  // partitions, although another thread keeps its session alive. At least the session timeout.
  double stall_timeout_s = 300;
};

// The log of a partition.
struct OffsetRange {
  Offset begin = 0;  // of the first record that was not deleted
  Offset end = 0;    // after the last record
};

// The handlers of what Poll hands out, in the order of each partition. The first error of a handler
// ends the Poll, which returns it; later records are left for the next Poll.
struct ConsumerHandler {
  std::function<Status(const ConsumedRecord&)> on_record;
  bool wants_headers = false;
  // The reader has reached the present end of the partition (an event that may be repeated).
  std::function<void(int32_t partition, Offset end)> on_end;
  // The position is outside the log (the records were deleted, or never existed).
  std::function<Status(int32_t partition)> on_out_of_range;
  // PartitionConsumer only: a connection to a broker was closed, so that the partition may have
  // another leader, which may lack records that were read from the last one (an unclean election,
  // or a disk that was lost). Called before anything that was fetched since is handed out. Returns
  // the offset to read again from, at or before the next one; empty: reading continues. (A leader
  // that is replaced while the connection to it stays open is not noticed: librdkafka 2.0.2 does
  // not tell leader epochs, KIP-320.)
  std::function<std::optional<Offset>(int32_t partition)> on_connection_lost;
};

// Reads partitions of one topic from explicit offsets; never resets a position by itself
// (auto.offset.reset=error). Used by one thread.
class PartitionConsumer {
 public:
  // Errors: an unknown or invalid setting (InvalidArgument, naming it). `wakeup` (may be null,
  // outlives the consumer) is notified when there is something to Poll.
  static StatusOr<std::unique_ptr<PartitionConsumer>> Create(const KafkaOptions& kafka,
                                                             const ConsumerOptions& options,
                                                             std::string topic, Wakeup* wakeup);
  virtual ~PartitionConsumer() = default;

  using Range = OffsetRange;
  // Waits for a leader. With read_committed the end is that of the committed records. Errors:
  // NotFound: no such topic or partition; Unavailable or DeadlineExceeded after the timeout;
  // PermissionDenied.
  virtual StatusOr<Range> QueryRange(int32_t partition, std::chrono::milliseconds timeout) = 0;

  // Starts (or restarts) reading `partition` at `offset`; other partitions are not affected.
  virtual Status Assign(int32_t partition, Offset offset) = 0;
  virtual Status Unassign(int32_t partition) = 0;
  // With holds_partitions: stops and resumes handing out a partition's records, at once and from
  // within handlers too; what was fetched is kept. One that is assigned again is not held.
  virtual void Hold(int32_t partition, bool held) = 0;

  // Hands out at most `max_records` of what has been fetched, without waiting; returns how many
  // events were handed out. Handlers must not call Assign or Unassign of this consumer. Errors:
  // those of a handler, and permanent ones (authorization, fatal; NotFound when the topic is
  // deleted).
  virtual StatusOr<size_t> Poll(size_t max_records, const ConsumerHandler& handler) = 0;
};

// A member of a consumer group (cooperative-sticky) on one topic, or, without joins_group, who
// reads for one. Callbacks tell the owner which partitions are assigned, and return the offset
// where each starts. Used by one thread.
class GroupConsumer {
 public:
  // As PartitionConsumer::Create.
  static StatusOr<std::unique_ptr<GroupConsumer>> Create(const KafkaOptions& kafka,
                                                         const ConsumerOptions& options,
                                                         std::string topic, Wakeup* wakeup);
  virtual ~GroupConsumer() = default;

  struct Committed {
    Offset offset = 0;
    std::string metadata{};  // text: no NUL; at most 4096 bytes on a broker with default settings
  };
  struct Handler : ConsumerHandler {
    // Returns the offset to start at; `committed` is empty when nothing was committed. After an
    // error all partitions of this assignment are offered again in the next Poll.
    std::function<StatusOr<Offset>(int32_t partition, const std::optional<Committed>& committed)>
        on_assigned;
    // `lost`: another member may have it already; commits would be refused. Whatever it returns,
    // the partition is revoked, as are the others of the same rebalance.
    std::function<Status(int32_t partition, bool lost)> on_revoked;
  };

  // As PartitionConsumer::Poll; rebalances happen in it, too. (It waits for as long as half a
  // second when the group's coordinator becomes unreachable just after a rebalance.)
  virtual StatusOr<size_t> Poll(size_t max_records, const Handler& handler) = 0;
  // Without joins_group: these partitions and no others are read from the next Poll on, which calls
  // on_revoked and on_assigned as for a member. Positions are then committed by whoever reads: of
  // two readers of a partition the last one counts. Brokers refuse them while the group has
  // members.
  virtual void Read(std::set<int32_t> partitions) = 0;
  // Stops and resumes handing out a partition's records, at once and from within handlers too;
  // what was fetched is kept (no refetch). A partition that is assigned again is not held.
  virtual void Hold(int32_t partition, bool held) = 0;
  // To be called in a long computation between two Polls: shows that this process has not stalled.
  // Calls no handler.
  virtual void ReportProgress() = 0;
  // Starts reading an assigned partition again at another offset (after on_out_of_range); it is not
  // held afterwards. Not from within handlers.
  virtual Status Seek(int32_t partition, Offset offset) = 0;
  // As PartitionConsumer::QueryRange.
  virtual StatusOr<OffsetRange> QueryRange(int32_t partition,
                                           std::chrono::milliseconds timeout) = 0;
  // Asynchronous; refused (and forgotten) when the partition is no longer assigned to this member.
  // May be called often: the last positions are sent at most ten times a second, in Poll, when a
  // partition is revoked, and in Close. The next owner may find an older position, since none is
  // sent during a rebalance.
  virtual void Commit(int32_t partition, const Committed& position) = 0;
  // Forgets what was given to Commit: neither Poll nor Close sends it any more. For who may have
  // been replaced: an older position would take the place of a newer one.
  virtual void DropCommits() = 0;
  // This member has received its assignment from the group or by Read, which may be empty.
  virtual bool is_member() const = 0;
  // Leaves the group, so that others get the partitions at once. Synchronous commits first. Calls
  // no handler; afterwards only destruction is allowed, which does the same if it was forgotten.
  // Takes at most a few seconds when no broker is reachable; the error then says that the
  // partitions are reassigned after the session timeout.
  virtual Status Close() = 0;
};

}  // namespace millrace
