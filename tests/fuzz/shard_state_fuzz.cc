// A hostile store: a shard takes its blocks, rows and state or refuses them, and works on with what
// it has taken.
#include "base/check.h"
#include "messages/records.pb.h"
#include "tasks/checkpoint.h"
#include "tasks/state_codec.h"
#include "tests/fuzz/fuzz_job.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/target.h"
#include "tests/tasks/state_bytes.h"
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

}  // namespace

void FuzzOne(ByteSource& bytes) {
  FuzzJob job(bytes, Hostile::kNothing);
  // The job uses up all bytes that it is given: those of the changes are set aside.
  const std::string_view changes = bytes.Text(200);
  job.Run();
  ByteSource hostile(reinterpret_cast<const uint8_t*>(changes.data()), changes.size());
  const auto id = static_cast<ShardId>(hostile.Below(job.shards()));
  if (!hostile.Chance(64)) MILLRACE_CHECK(Save(job.task(id), job.store(id)).ok());
  WriteBatch batch;
  const Status scanned =
      job.store(id).Scan("", "", [&](std::string_view key, std::string_view value) {
        const bool is_state = key.starts_with(kStateKeyPrefix);
        if (!hostile.Chance(is_state ? 200 : 32)) return true;
        std::string changed(value);
        MutateEntry(key, changed, hostile);
        batch.Put(std::string(key), changed);
        return true;
      });
  MILLRACE_CHECK(scanned.ok() && job.store(id).Write(batch).ok());
  const auto task = job.Recover(id, job.store(id));
  if (batch.empty()) MILLRACE_CHECK(task.ok() && StateBytes(**task) == StateBytes(job.task(id)));
  if (!task.ok()) return;
  // What was taken can be saved, and is taken again. (Rows that are not in memory are read when it
  // is saved.)
  const Status saved = Save(**task, job.store(id));
  if (!saved.ok()) {
    MILLRACE_CHECK(absl::IsDataLoss(saved) && !batch.empty());
    return;
  }
  const auto again = job.Recover(id, job.store(id));
  MILLRACE_CHECK(again.ok() && StateBytes(**again) == StateBytes(**task));
}

}  // namespace millrace::fuzz
