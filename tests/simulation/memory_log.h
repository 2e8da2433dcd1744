// Kafka as far as the tasks can tell: partitions, offsets, transactions, deletion, compaction.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "topics/topics.h"

namespace millrace::simulation {

struct LogRecord {
  Offset offset = 0;
  int64_t timestamp_ms = 0;
  std::string key;
  std::string value;
};

// Readers are read_committed. What aborts, and the marker that ends a transaction, takes offsets
// but is never read. Not thread-safe.
class MemoryLog {
 public:
  MemoryLog(uint32_t workers, uint32_t shards);

  Offset Append(Topic topic, int32_t partition, std::string_view key, std::string_view value,
                int64_t timestamp_ms = 0);

  // Of the first record that is still there.
  Offset Begin(Topic topic, int32_t partition) const;
  // After the last record or marker.
  Offset End(Topic topic, int32_t partition) const;
  // Where a read_committed reader has to stop: in front of the first open transaction.
  Offset StableEnd(Topic topic, int32_t partition) const;
  // What a reader that stands at `from` gets next; null at the end. Valid until the next change.
  const LogRecord* Next(Topic topic, int32_t partition, Offset from) const;

  // All committed records from an offset on, also those after an open transaction: for who judges.
  std::vector<const LogRecord*> Committed(Topic topic, int32_t partition, Offset from) const;
  void DeleteBefore(Topic topic, int32_t partition, Offset offset);
  // What must never happen to a log: its records from `offset` on are lost, as after an election of
  // a broker that had not got them. REQUIRES: none of them is in an open transaction.
  void LoseFrom(Topic topic, int32_t partition, Offset offset);
  // The topic is deleted and recreated: it begins at offset 0. REQUIRES: no open transaction.
  void Recreate(Topic topic, int32_t partition);
  // Removes records below `limit` that a later committed record below `limit` with the same key
  // has superseded, and aborted ones; returns how many. Offsets stay.
  size_t Compact(Topic topic, int32_t partition, Offset limit);

  // Fences older instances of this transactional id and aborts what they left open. Returns the
  // new instance's epoch.
  uint64_t InitTransactions(const std::string& id);
  // Whether there is no newer instance than this one.
  bool IsNewest(const std::string& id, uint64_t epoch) const;
  // Whether this instance may write nothing any more: there is a newer one, or it was too slow.
  bool IsFenced(const std::string& id, uint64_t epoch) const;
  // Whether this instance is not fenced, and has a transaction that has begun and not ended.
  bool HasOpenTransaction(const std::string& id, uint64_t epoch) const;
  // What a coordinator does whose time limit has passed: aborts what is open, and fences the
  // instance that has begun it, although there is no newer one.
  void TimeOutTransaction(const std::string& id);
  // The three calls below return FailedPrecondition to an instance that has been fenced.
  StatusOr<Offset> AppendInTransaction(const std::string& id, uint64_t epoch, Topic topic,
                                       int32_t partition, std::string_view key,
                                       std::string_view value);
  Status CommitTransaction(const std::string& id, uint64_t epoch);
  Status AbortTransaction(const std::string& id, uint64_t epoch);

 private:
  enum class EntryState { kCommitted, kOpen, kAborted, kMarker, kGone };
  struct Entry {
    EntryState state = EntryState::kCommitted;
    LogRecord record;
  };
  struct Partition {
    Offset begin = 0;
    Offset first = 0;  // offset of entries.front(): what compaction has removed before it is freed
    std::deque<Entry> entries;
    Offset end() const { return first + entries.size(); }
    Entry& at(Offset offset) { return entries[static_cast<size_t>(offset - first)]; }
    const Entry& at(Offset offset) const { return entries[static_cast<size_t>(offset - first)]; }
  };
  struct Place {
    Topic topic;
    int32_t partition;
    Offset offset;
  };
  struct Producer {
    uint64_t epoch = 0;     // of who may write; nobody has it after a timeout
    uint64_t instance = 0;  // the epoch that the newest instance was given
    std::vector<Place> open;
  };

  Partition& At(Topic topic, int32_t partition);
  const Partition& At(Topic topic, int32_t partition) const;
  Offset AppendEntry(Topic topic, int32_t partition, EntryState state, LogRecord record);
  StatusOr<Producer*> Find(const std::string& id, uint64_t epoch);
  void Finish(Producer& producer, EntryState state);

  std::map<Topic, std::vector<Partition>> topics_;
  std::map<std::string, Producer> producers_;
};

}  // namespace millrace::simulation
