// A hostile store: a shard takes its blocks, rows and state or refuses them, and works on with what
// it has taken.
#include "base/check.h"
#include "tasks/checkpoint.h"
#include "tests/fuzz/fuzz_job.h"
#include "tests/fuzz/mutate_entry.h"
#include "tests/fuzz/target.h"
#include "tests/tasks/state_bytes.h"

namespace millrace::fuzz {

void FuzzOne(ByteSource& bytes) {
  FuzzJob job(bytes, Hostile::kNothing);
  ByteSource hostile = job.RunWithoutSome(200);
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
