#include "tasks/checkpoint_assembler.h"

#include <string>
#include <utility>

#include "stores/frozen_rows.h"
#include "stores/parameter_shard.h"

namespace millrace {

bool CheckpointAssembler::Knows(std::string_view key) {
  return key == kIncarnationKey || key.starts_with(kStateKeyPrefix) ||
         ParameterShard::IsBlockKey(key) || IsEmbeddingRowKey(key);
}

StatusOr<std::optional<std::string>> CheckpointAssembler::JoinState(std::string_view chunk) {
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(chunk));
  return state_.Add(0, frame);
}

StatusOr<std::optional<CheckpointAssembler::Part>> CheckpointAssembler::Add(
    Offset offset, std::string_view key, std::string_view value) {
  const bool is_state = key.starts_with(kStateKeyPrefix);
  if (!Knows(key)) {
    return absl::DataLossError("parameters, offset " + std::to_string(offset) +
                               ": a record with an unknown key");
  }
  entries_.push_back({std::string(key), std::string(value)});
  bytes_ += key.size() + value.size();
  unfinished_ = true;
  std::optional<Offset> end;
  std::string state;
  if (is_state) {
    StatusOr<std::optional<std::string>> whole = JoinState(value);
    if (!whole.ok()) {
      return absl::DataLossError("parameters, offset " + std::to_string(offset) +
                                 ": a chunk of the shard's state cannot be used: " +
                                 std::string(whole.status().message()));
    }
    if (*whole) end = offset + 1;
    if (*whole) state = **std::move(whole);
  }
  if (!end && bytes_ < most_bytes_) return std::optional<Part>();
  bytes_ = 0;
  unfinished_ = !end;
  return std::optional<Part>({std::exchange(entries_, {}), end, std::move(state)});
}

}  // namespace millrace
