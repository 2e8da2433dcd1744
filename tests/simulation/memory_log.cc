#include "tests/simulation/memory_log.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace millrace::simulation {

MemoryLog::MemoryLog(uint32_t workers, uint32_t shards) {
  for (const TopicPlan& plan :
       PlanTopics("simulation", workers, TopicSizes{.shards = shards, .most_workers = workers})) {
    topics_[plan.topic].resize(plan.partitions);
  }
}

MemoryLog::Partition& MemoryLog::At(Topic topic, int32_t partition) {
  return topics_.at(topic).at(static_cast<size_t>(partition));
}

const MemoryLog::Partition& MemoryLog::At(Topic topic, int32_t partition) const {
  return topics_.at(topic).at(static_cast<size_t>(partition));
}

Offset MemoryLog::AppendEntry(Topic topic, int32_t partition, EntryState state, LogRecord record) {
  Partition& log = At(topic, partition);
  record.offset = log.end();
  log.entries.push_back({state, std::move(record)});
  return log.end() - 1;
}

Offset MemoryLog::Append(Topic topic, int32_t partition, std::string_view key,
                         std::string_view value, int64_t timestamp_ms) {
  return AppendEntry(topic, partition, EntryState::kCommitted,
                     {0, timestamp_ms, std::string(key), std::string(value)});
}

Offset MemoryLog::Begin(Topic topic, int32_t partition) const { return At(topic, partition).begin; }

Offset MemoryLog::End(Topic topic, int32_t partition) const { return At(topic, partition).end(); }

Offset MemoryLog::StableEnd(Topic topic, int32_t partition) const {
  Offset end = At(topic, partition).end();
  for (const auto& [id, producer] : producers_) {
    for (const Place& place : producer.open) {
      if (place.topic == topic && place.partition == partition) end = std::min(end, place.offset);
    }
  }
  return end;
}

const LogRecord* MemoryLog::Next(Topic topic, int32_t partition, Offset from) const {
  const Partition& log = At(topic, partition);
  MILLRACE_CHECK(from >= log.begin);
  const Offset end = StableEnd(topic, partition);
  for (Offset offset = std::max(from, log.first); offset < end; ++offset) {
    const Entry& entry = log.at(offset);
    if (entry.state == EntryState::kCommitted) return &entry.record;
  }
  return nullptr;
}

std::vector<const LogRecord*> MemoryLog::Committed(Topic topic, int32_t partition,
                                                   Offset from) const {
  const Partition& log = At(topic, partition);
  std::vector<const LogRecord*> records;
  for (Offset offset = std::max(from, log.first); offset < log.end(); ++offset) {
    const Entry& entry = log.at(offset);
    if (entry.state == EntryState::kCommitted) records.push_back(&entry.record);
  }
  return records;
}

void MemoryLog::DeleteBefore(Topic topic, int32_t partition, Offset offset) {
  Partition& log = At(topic, partition);
  MILLRACE_CHECK(offset <= log.end());
  for (; log.first < offset; ++log.first) log.entries.pop_front();
  log.begin = std::max(log.begin, offset);
}

void MemoryLog::LoseFrom(Topic topic, int32_t partition, Offset offset) {
  Partition& log = At(topic, partition);
  MILLRACE_CHECK(log.begin <= offset && offset <= StableEnd(topic, partition));
  log.first = std::min(log.first, offset);
  log.entries.resize(static_cast<size_t>(offset - log.first));
}

void MemoryLog::Recreate(Topic topic, int32_t partition) {
  MILLRACE_CHECK(StableEnd(topic, partition) == End(topic, partition));
  At(topic, partition) = {};
}

size_t MemoryLog::Compact(Topic topic, int32_t partition, Offset limit) {
  Partition& log = At(topic, partition);
  std::set<std::string_view> seen;
  size_t removed = 0;
  for (Offset offset = std::min(limit, StableEnd(topic, partition)); offset > log.first;) {
    --offset;
    Entry& entry = log.at(offset);
    const bool superseded =
        entry.state == EntryState::kCommitted && !seen.insert(entry.record.key).second;
    if (!superseded && entry.state != EntryState::kAborted) continue;
    entry.state = EntryState::kGone;
    entry.record.value.clear();
    ++removed;
  }
  const auto is_free = [](const Entry& entry) {
    return entry.state == EntryState::kGone || entry.state == EntryState::kMarker;
  };
  for (; !log.entries.empty() && is_free(log.entries.front()); ++log.first) log.entries.pop_front();
  return removed;
}

uint64_t MemoryLog::InitTransactions(const std::string& id) {
  Producer& producer = producers_[id];
  if (!producer.open.empty()) Finish(producer, EntryState::kAborted);
  producer.instance = ++producer.epoch;
  return producer.instance;
}

bool MemoryLog::IsNewest(const std::string& id, uint64_t epoch) const {
  const auto found = producers_.find(id);
  return found != producers_.end() && found->second.instance == epoch;
}

bool MemoryLog::IsFenced(const std::string& id, uint64_t epoch) const {
  const auto found = producers_.find(id);
  return found == producers_.end() || found->second.epoch != epoch;
}

bool MemoryLog::HasOpenTransaction(const std::string& id, uint64_t epoch) const {
  return !IsFenced(id, epoch) && !producers_.at(id).open.empty();
}

void MemoryLog::TimeOutTransaction(const std::string& id) {
  Producer& producer = producers_.at(id);
  Finish(producer, EntryState::kAborted);
  ++producer.epoch;
}

StatusOr<MemoryLog::Producer*> MemoryLog::Find(const std::string& id, uint64_t epoch) {
  Producer& producer = producers_[id];
  if (producer.epoch != epoch) {
    return absl::FailedPreconditionError("fenced: another epoch of " + id + " has begun");
  }
  return &producer;
}

StatusOr<Offset> MemoryLog::AppendInTransaction(const std::string& id, uint64_t epoch, Topic topic,
                                                int32_t partition, std::string_view key,
                                                std::string_view value) {
  MILLRACE_ASSIGN_OR_RETURN(Producer * producer, Find(id, epoch));
  const Offset offset = AppendEntry(topic, partition, EntryState::kOpen,
                                    {0, 0, std::string(key), std::string(value)});
  producer->open.push_back({topic, partition, offset});
  return offset;
}

Status MemoryLog::CommitTransaction(const std::string& id, uint64_t epoch) {
  MILLRACE_ASSIGN_OR_RETURN(Producer * producer, Find(id, epoch));
  Finish(*producer, EntryState::kCommitted);
  return absl::OkStatus();
}

Status MemoryLog::AbortTransaction(const std::string& id, uint64_t epoch) {
  MILLRACE_ASSIGN_OR_RETURN(Producer * producer, Find(id, epoch));
  Finish(*producer, EntryState::kAborted);
  return absl::OkStatus();
}

void MemoryLog::Finish(Producer& producer, EntryState state) {
  std::set<std::pair<Topic, int32_t>> touched;
  for (const Place& place : producer.open) {
    At(place.topic, place.partition).at(place.offset).state = state;
    touched.insert({place.topic, place.partition});
  }
  producer.open.clear();
  for (const auto& [topic, partition] : touched) {
    AppendEntry(topic, partition, EntryState::kMarker, {});
  }
}

}  // namespace millrace::simulation
