// A shard's state as bytes, to compare it with another's.
#pragma once

#include <cstddef>
#include <string>

#include "tasks/shard_task.h"

namespace millrace {

// All but the embedding rows.
inline std::string StateBytes(const ShardTask& task) {
  ShardState state;
  task.processor().SaveState(state);
  state.set_position(task.position());
  std::string bytes = state.SerializeAsString();
  for (size_t block = 0; block < task.processor().shard().block_count(); ++block) {
    bytes += task.processor().shard().EncodeBlock(block).value;
  }
  return bytes;
}

}  // namespace millrace
