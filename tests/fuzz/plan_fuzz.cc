// Records of `plan`, as WorkerApp and ServerApp read them: what they host, and the rows that
// workers are leased. What cannot be is refused with a reason, and nobody reads a row twice, or
// another one.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "processors/leased_rows.h"
#include "processors/one_pass_batches.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/some_commands.h"
#include "tests/fuzz/target.h"
#include "topics/lease_codec.h"
#include "topics/plan_codec.h"
#include "topics/planned_hosts.h"
#include "topics/process_name.h"
#include "topics/row_codec.h"
#include "topics/topics.h"

namespace millrace::fuzz {
namespace {

constexpr RowShape kShape = {.numeric = 1, .features = 2, .classes = 2};

// Hands out a batch of one row at a time.
class Reader {
 public:
  explicit Reader(const WorkerLeases& leases)
      : batches_({.batch_rows = 1, .ends_at_flushes = true}, RowNumber(leases.counted_rows()),
                 Clock(leases.clock())),
        rows_(leases, kShape, batches_),
        progress_{.clock = Clock(leases.clock()), .rows_end = RowNumber(leases.counted_rows())} {}

  // False: it is of no use any more.
  bool Follow(const WorkerLeases& leases) {
    const StatusOr<bool> followed = rows_.Follow(leases);
    MILLRACE_CHECK(followed.ok() || !followed.status().message().empty());
    return followed.value_or(false);
  }

  // The record that it wants next, or another one.
  bool Read(ByteSource& bytes) {
    const std::optional<LeasedRows::Place> place = rows_.next();
    if (!place || rows_.ended()) return true;
    MILLRACE_CHECK(place->offset >= 0);
    const InputKey key = {RowNumber(bytes.Below(32)), static_cast<uint32_t>(bytes.Below(8))};
    std::string value = ValueOf(key);
    if (bytes.Chance(32)) MutateFrame<InputRecord>(value, bytes);
    const Offset offset = place->offset + static_cast<int64_t>(bytes.Below(2));
    const Status read = rows_.Process({offset, 0, EncodeInputKey(key), value});
    MILLRACE_CHECK(read.ok() || !read.message().empty());
    if (read.ok()) TakeBatches();
    return read.ok();
  }

 private:
  static std::string ValueOf(const InputKey& key) {
    if (!key.has_rows()) return EncodeFlush(key.first);
    RowBatchEncoder batch;
    for (uint64_t row = key.first; row < key.end(); ++row) {
      batch.Add({0, {static_cast<double>(row)}, {}, {}});
    }
    return EncodeRows(batch);
  }

  void TakeBatches() {
    Batch batch;
    while (true) {
      const StatusOr<BatchState> next = batches_.Next(progress_, batch);
      MILLRACE_CHECK(next.ok());
      if (*next != BatchState::kReady) return;
      MILLRACE_CHECK(batch.rows_end > progress_.rows_end && batch.rows.size() <= 1);
      ++progress_.clock;
      progress_.rows_end = batch.rows_end;
      batches_.Forget(progress_);
    }
  }

  OnePassBatches batches_;
  LeasedRows rows_;
  Progress progress_;
};

ProcessState SomeProcess(ByteSource& bytes) {
  ProcessState process;
  process.mutable_process()->set_group("worker");
  process.mutable_process()->set_rank(static_cast<uint32_t>(bytes.Below(3)));
  process.set_incarnation(1 + bytes.Below(3));
  for (size_t left = bytes.Below(4); left > 0; --left) {
    process.add_workers(static_cast<uint32_t>(bytes.Below(4)));
  }
  for (size_t left = bytes.Below(3); left > 0; --left) {
    process.add_shards(static_cast<uint32_t>(bytes.Below(4)));
  }
  return process;
}

void FollowHosts(PlannedHosts& hosts, ByteSource& bytes) {
  const ProcessState process = SomeProcess(bytes);
  std::string key = ProcessPlanKey(process.process());
  std::string value = EncodePlanValue(process);
  if (bytes.Chance(64)) MutateFrame<ProcessState>(value, bytes);
  if (bytes.Chance(32)) Mutate(key, bytes);
  if (bytes.Chance(32)) {
    hosts.Take(key, {});
  } else {
    hosts.Take(key, value);
  }
  for (const std::string& name : hosts.Names()) {
    MILLRACE_CHECK(ParseProcessName(name).ok());
    for (uint64_t number = 0; number < 4; ++number) {
      for (const int32_t worker : hosts.WorkersOf({name, number})) {
        MILLRACE_CHECK(worker >= 0 && worker < static_cast<int32_t>(kMostWorkers));
      }
    }
  }
  for (uint64_t number = 0; number < 4; ++number) {
    const std::vector<uint32_t> shards = hosts.ShardsOf({ToText(process.process()), number});
    MILLRACE_CHECK(std::ranges::is_sorted(shards));
    MILLRACE_CHECK(shards.empty() || shards.back() < kMostShards);
  }
  std::string self = ToText(process.process()) + ":" + std::to_string(process.incarnation());
  if (bytes.Chance(64)) Mutate(self, bytes);
  const StatusOr<Incarnation> parsed = Incarnation::Parse(self);
  MILLRACE_CHECK(parsed.ok() ? parsed->number > 0 : !parsed.status().message().empty());
}

// The record of a worker of the table, as it is, or as it is not.
void FollowLeases(const LeaseTable& table, std::map<uint32_t, std::unique_ptr<Reader>>& readers,
                  ByteSource& bytes) {
  const auto number = static_cast<uint32_t>(bytes.Below(2));
  const auto found = table.workers().find(number);
  if (found == table.workers().end()) return;
  // (Those of another worker can be leases, but contradict those that this one has.)
  const auto other = table.workers().find(1 - number);
  const bool is_others = other != table.workers().end() && bytes.Chance(24);
  std::string value = EncodePlanValue(is_others ? other->second : found->second);
  const bool is_hostile = bytes.Chance(64);
  if (is_hostile) MutateFrame<WorkerLeases>(value, bytes);
  WorkerLeases leases;
  Status usable = DecodePlanValue(value, leases);
  if (usable.ok()) usable = CheckWorkerLeases(leases);
  if (!usable.ok()) {
    MILLRACE_CHECK(is_hostile && !usable.message().empty());
    return;
  }
  std::unique_ptr<Reader>& reader = readers[number];
  if (reader == nullptr || bytes.Chance(16)) {
    reader = std::make_unique<Reader>(leases);
  } else if (!reader->Follow(leases)) {
    reader.reset();
  }
  if (reader != nullptr && !reader->Read(bytes)) reader.reset();
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  PlannedHosts hosts;
  LeaseTable table;
  std::map<uint32_t, std::unique_ptr<Reader>> readers;
  while (!bytes.empty()) {
    switch (bytes.Below(4)) {
      case 0:
        FollowHosts(hosts, bytes);
        break;
      case 1: {
        const LeaseCommand command = SomeLeaseCommand(table, bytes);
        if (CheckLeaseCommand(command).ok()) (void)table.Apply(command);
        break;
      }
      default:
        FollowLeases(table, readers, bytes);
    }
  }
}

}  // namespace millrace::fuzz
