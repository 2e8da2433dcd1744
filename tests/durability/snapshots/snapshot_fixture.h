// Shards in the middle of a job, and their snapshots.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "durability/snapshots/snapshot_files.h"
#include "durability/snapshots/snapshot_writer.h"
#include "stores/frozen_rows.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_task.h"
#include "tests/processors/server_fixture.h"
#include "topics/partitioning.h"

namespace millrace::snapshot_tests {

inline constexpr uint64_t kKeys = 11;
inline constexpr EmbeddingId kIds = 40;
inline constexpr size_t kWidth = 2;

inline ServerOptions ShardOf(ShardId shard, uint32_t shards) {
  ServerOptions options = SmallServer(ConsistencyPolicy::Eventual());  // clocks may differ
  options.shard = shard;
  options.shards = shards;
  options.range = RangeOfShard(shard, shards, kKeys);
  options.optimizer.kind = OptimizerOptions::Kind::kAdam;
  options.embeddings.emplace();
  options.embeddings->table = 3;
  options.embeddings->seed = 9;
  options.embeddings->initial_limit.assign(kWidth, 0.5f);
  options.embeddings->admit_after = 2;
  return options;
}

// Anything that is the same for the key or row whatever shard it is of.
inline float NumberOf(uint64_t thing, uint64_t part) {
  return static_cast<float>(std::mt19937(static_cast<uint32_t>(31 * thing + part))() % 1000) / 8;
}

inline void Put(const Checkpoint& checkpoint, OrderedByteMap& store) {
  WriteBatch batch;
  checkpoint.VisitRecords(0, [&batch](std::string_view key, std::string_view value) {
    batch.Put(std::string(key), std::string(value));
    return true;
  });
  ASSERT_TRUE(store.Write(batch).ok());
}

// A shard in the middle of a job: weights, state, and those rows of its that somebody has named.
struct Shard {
  explicit Shard(ServerOptions with)
      : options(std::move(with)),
        task(std::make_unique<ShardTask>(options, store)),
        processor(task->processor()) {
    const Status status = LoadMembers();
    EXPECT_TRUE(status.ok()) << status;
    auto& dense = const_cast<ParameterShard&>(processor.shard());
    const size_t keys = dense.range().size();
    for (size_t i = 0; i < keys; ++i) {
      const uint64_t key = dense.range().begin + i;
      dense.mutable_weights()[i] = NumberOf(key, 1);
      for (size_t slot = 0; slot * keys < dense.slots().size(); ++slot) {
        dense.mutable_slots()[slot * keys + i] = NumberOf(key, 2 + slot);
      }
    }
    const EmbeddingTable& table = *processor.embeddings();
    Checkpoint named;
    named.rows = FrozenRows(options.embeddings->table, table.width(), table.slot_floats());
    for (EmbeddingId id = 0; id < kIds; id += 3) {
      if (ShardOfEmbedding(id, options.shards) != options.shard) continue;
      std::vector<float> floats(table.width() + table.slot_floats());
      for (size_t i = 0; i < floats.size(); ++i) floats[i] = NumberOf(id, 100 + i);
      const auto updates = static_cast<uint32_t>(1 + id % 4);  // some are not admitted
      named.rows.Add(id, 0, {updates, static_cast<int64_t>(1000 + id)},
                     updates >= 2 ? std::span<const float>(floats) : std::span<const float>());
    }
    Put(named, store);
  }

  // Worker 0 has left, the others stand at the cut.
  Status LoadMembers() const {
    ShardState state;
    processor.SaveState(state);
    for (ShardState::Member& member : *state.mutable_members()) {
      member.set_clock(5 + member.worker());
      member.set_left(member.worker() == 0);
      member.mutable_rows()->set_end(70 + member.worker());
    }
    state.set_steps(9);
    state.set_seen_ms(2000 + static_cast<int64_t>(options.shard));
    state.set_step_ms(2000);
    return const_cast<ServerProcessor&>(processor).LoadState(state);
  }

  Status WritePart(const std::string& folder, uint64_t snapshot = 4) const {
    SnapshotPart head;
    head.set_job("job");
    head.set_epoch(1);
    head.set_snapshot(snapshot);
    return WriteSnapshotPart(folder, head, options, processor, store);
  }

  ServerOptions options;
  MemoryByteMap store;
  std::unique_ptr<ShardTask> task;
  const ServerProcessor& processor;
};

inline SnapshotManifest HeadOf(uint64_t snapshot = 4) {
  SnapshotManifest head;
  head.set_job("job");
  head.set_epoch(1);
  head.set_snapshot(snapshot);
  head.mutable_training()->set_model(Training::FACTORIZATION_MACHINE);
  return head;
}

inline void WriteAll(const std::string& folder, uint32_t shards) {
  for (ShardId shard = 0; shard < shards; ++shard) {
    const Status status = Shard(ShardOf(shard, shards)).WritePart(folder);
    ASSERT_TRUE(status.ok()) << status;
  }
  const StatusOr<bool> whole = WriteManifest(folder, HeadOf());
  ASSERT_TRUE(whole.ok() && *whole) << whole.status();
}

// What a store holds of embedding rows.
inline std::vector<std::pair<std::string, std::string>> RowsOf(const OrderedByteMap& store) {
  std::vector<std::pair<std::string, std::string>> rows;
  const Status status = store.Scan("", "", [&rows](std::string_view key, std::string_view value) {
    if (IsEmbeddingRowKey(key)) rows.emplace_back(key, value);
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  return rows;
}

}  // namespace millrace::snapshot_tests
