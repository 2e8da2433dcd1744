// A whole snapshot of a job, from which another starts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "messages/records.pb.h"
#include "processors/server_options.h"
#include "stores/memory_byte_map.h"
#include "tasks/first_checkpoint.h"
#include "tests/simulation/referee.h"

namespace millrace::simulation {

struct StoredSnapshot {
  struct Row {
    EmbeddingId id = 0;
    EmbeddingRowHead head;
    std::vector<float> floats;
  };
  struct Part {
    // What production code keeps of it.
    uint64_t begin = 0;  // of the keys
    std::vector<float> weights;
    std::vector<std::vector<float>> slots;
    ShardState state;
    std::vector<Row> rows;
    // What the referee says that the shard was at the cut.
    Referee::State cut;
    std::vector<uint64_t> keys_of;  // how many it had of each named parameter
    // Of a sealed shard: what its job's next shards read.
    ServerOptions of{};
    std::shared_ptr<const MemoryByteMap> store{};
  };
  std::map<ShardId, Part> parts;
  SnapshotStart start = SnapshotStart::kSameStream;
  bool is_forged = false;  // somebody had written updates in the name of workers (World::forged)

  // What a shard is at the start of the job, whose shards may be others.
  Referee::State StartOf(const Referee::Job& job) const;
  // Rows of the worker before this one were counted.
  uint64_t rows_end(uint32_t worker) const;
};

}  // namespace millrace::simulation
