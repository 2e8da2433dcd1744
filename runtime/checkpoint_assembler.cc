#include "runtime/checkpoint_assembler.h"

#include <string>
#include <utility>

#include "stores/parameter_shard.h"

namespace millrace {

StatusOr<std::optional<CheckpointAssembler::Whole>> CheckpointAssembler::Add(
    Offset offset, std::string_view key, std::string_view value) {
  const bool is_state = key.starts_with(kStateKeyPrefix);
  if (!is_state && !ParameterShard::IsBlockKey(key)) {
    return absl::DataLossError("parameters, offset " + std::to_string(offset) +
                               ": a record with an unknown key");
  }
  entries_.push_back({std::string(key), std::string(value)});
  if (!is_state) return std::optional<Whole>();
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(value));
  if (!state_.Add(frame)) return std::optional<Whole>();
  return std::optional<Whole>({std::exchange(entries_, {}), offset + 1});
}

}  // namespace millrace
