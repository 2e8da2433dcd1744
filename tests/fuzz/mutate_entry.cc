#include "tests/fuzz/mutate_entry.h"

#include <utility>

#include "messages/records.pb.h"
#include "tasks/checkpoint.h"
#include "tasks/state_codec.h"
#include "tests/fuzz/mutate_message.h"
#include "topics/frame.h"

namespace millrace::fuzz {
namespace {

// The pieces of a state as one message that is changed, in one frame again.
void MutateState(std::string& value, ByteSource& bytes) {
  const StatusOr<Frame> frame = ParseFrame(value);
  StatusOr<ShardState> state = absl::NotFoundError("");
  if (frame.ok() && !frame->is_chunk) state = DecodeState(frame->body);
  if (!state.ok() || bytes.Chance(32)) return Mutate(value, bytes);
  Mutate(*state, bytes);
  const auto pieces = EncodeState(*std::move(state), bytes.Chance(32) ? 600 : kMostMessageBytes);
  if (!pieces.ok()) return;
  value = MakeFrames(*pieces, 0).front();
}

}  // namespace

void MutateEntry(std::string_view key, std::string& value, ByteSource& bytes) {
  if (key.starts_with(kStateKeyPrefix)) {
    MutateState(value, bytes);
  } else if (bytes.Chance(64)) {
    Mutate(value, bytes);
  } else if (key.starts_with("p")) {
    MutateFrame<ParameterBlock>(value, bytes);
  } else {
    MutateFrame<EmbeddingRow>(value, bytes);
  }
}

}  // namespace millrace::fuzz
