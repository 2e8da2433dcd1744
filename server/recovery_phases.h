// A shard's recovery: what each phase read, and how long it took.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "durability/checkpoints/shard_store.h"
#include "messages/records.pb.h"

namespace millrace {

struct RecoveryPhases {
  ShardCopy::Source source = ShardCopy::Source::kNothing;
  std::string peer{};
  uint64_t restored_bytes = 0;
  double restore_s = 0;  // until the copy was open and, at last, in memory
  uint64_t parameters_records = 0;
  uint64_t parameters_bytes = 0;
  double parameters_s = 0;
  uint64_t gradients_records = 0;
  double gradients_s = 0;
  double total_s = 0;                // from the server's start to the first answer
  std::optional<int64_t> down_ms{};  // since the last heartbeat of the previous host

  // Whether there was a state to recover. (At the start of a job there may be gradients, too: the
  // requests of workers that started earlier.)
  bool recovered() const {
    return source != ShardCopy::Source::kNothing || parameters_records > 0 || down_ms.has_value();
  }
};

// "own disk", "replica of HOST:PORT", ..
std::string SourceName(const RecoveryPhases& phases);
// One line for the log.
std::string RecoveryText(const RecoveryPhases& phases);
MetricPoint::ServerProgress::Recovery ToRecoveryPoint(const RecoveryPhases& phases);

}  // namespace millrace
