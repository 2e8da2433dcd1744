#include "tasks/saved_shard.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tasks/state_codec.h"
#include "topics/frame.h"

namespace millrace {
namespace {

Status CannotUseSaved(ShardId shard, const Status& reason) {
  return Status(reason.code(),
                "shard " + std::to_string(shard) +
                    ": its saved state cannot be used: " + std::string(reason.message()) +
                    ". Move the data folder of its server away and start that server again: the "
                    "shard is restored from a replica or from the topic parameters. If that fails, "
                    "or if the job trains by all-reduce and has no servers, start a new job "
                    "(another --job)");
}

}  // namespace

StatusOr<std::optional<ShardState>> LoadSavedShard(const OrderedByteMap& store, ShardId shard,
                                                   ServerProcessor& processor) {
  bool has_blocks = false;
  Status status = absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(
      ParameterShard::ScanBlocks(store, [&](std::string_view key, std::string_view value) {
        has_blocks = true;
        status = processor.mutable_shard().LoadBlock(key, value);
        return status.ok();
      }));
  if (!status.ok()) return CannotUseSaved(shard, status);
  // A state that has become shorter leaves chunks of an older one behind: the first says which.
  bool has_chunks = false;
  std::optional<std::string> body;
  ChunkJoiner joiner({.sender_bytes = SIZE_MAX, .bytes = SIZE_MAX});  // as large as it is
  MILLRACE_RETURN_IF_ERROR(
      store.Scan(StateKey(0), StateKey(UINT32_MAX), [&](std::string_view, std::string_view value) {
        has_chunks = true;
        const StatusOr<Frame> frame = ParseFrame(value);
        status = frame.status();
        if (!status.ok()) return false;
        StatusOr<std::optional<std::string>> joined = joiner.Add(0, *frame);
        status = joined.status();
        if (status.ok()) body = *std::move(joined);
        return status.ok() && !body;
      }));
  if (!status.ok()) return CannotUseSaved(shard, status);
  if (!has_chunks && !has_blocks) return std::optional<ShardState>();
  if (!body) {
    return absl::DataLossError(
        has_chunks ? "parameters: chunks of the shard's state are missing: records were deleted, "
                     "or written by another program. Restore the topic"
                   : "parameters: blocks without the state that they belong to: records were "
                     "deleted, or written by another program. Restore the topic");
  }
  StatusOr<ShardState> state = DecodeState(*body);
  if (!state.ok()) return CannotUseSaved(shard, state.status());
  body.reset();  // it may be large
  MILLRACE_RETURN_IF_ERROR(processor.LoadState(*state));
  return std::optional<ShardState>(*std::move(state));
}

}  // namespace millrace
