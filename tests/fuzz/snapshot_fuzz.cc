// Snapshots of any content: a shard starts from one or refuses it; from one that is as it was
// written it starts.
#include <filesystem>
#include <map>

#include "base/check.h"
#include "durability/snapshots/snapshot_files.h"
#include "durability/snapshots/snapshot_model.h"
#include "durability/snapshots/snapshot_reader.h"
#include "durability/snapshots/snapshot_writer.h"
#include "tests/fuzz/fuzz_job.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/scratch_folder.h"
#include "tests/fuzz/target.h"

namespace millrace::fuzz {
namespace {

// A snapshot with embedding rows, written once.
struct Original {
  ScratchFolder folder{};
  simulation::Scenario scenario{};
  std::map<std::string, std::string> files{};
  JobFeatures features{};
  Training training{};

  Original() {
    scenario.ids = 1;
    scenario.shards = 2;
    scenario.training.set_model(Training::FACTORIZATION_MACHINE);
    scenario.training.mutable_embedding()->set_factors(2);
    features.set_epoch(simulation::kEpoch);
    features.set_workers(scenario.workers);
    features.set_feature_count(scenario.features());
    for (const char* name : {"0", "1"}) features.mutable_spec()->add_classes(name);
    features.mutable_spec()->add_numeric("0");
    features.mutable_spec()->add_ids("0");
    training = scenario.training;
    SnapshotPart head;
    head.set_job("fuzz");
    head.set_epoch(simulation::kEpoch);
    head.set_snapshot(1);
    head.set_shards(scenario.shards);
    for (ShardId shard = 0; shard < scenario.shards; ++shard) {
      const ServerOptions options = simulation::MakeServerOptions(scenario, shard);
      MemoryByteMap store;
      ShardTask task(options, store);
      head.set_shard(shard);
      MILLRACE_CHECK(WriteSnapshotPart(folder.path(), head, options, task.processor(), store).ok());
    }
    SnapshotManifest manifest;
    manifest.set_format(kSnapshotFormat);
    manifest.set_job("fuzz");
    manifest.set_epoch(simulation::kEpoch);
    manifest.set_snapshot(1);
    *manifest.mutable_features() = features;
    *manifest.mutable_training() = training;
    manifest.set_parameters(simulation::MakeModel(scenario)->parameter_count());
    const StatusOr<bool> written = WriteManifest(folder.path(), manifest);
    MILLRACE_CHECK(written.ok() && *written);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      const std::string name = entry.path().filename();
      files[name] = folder.Read(name);
    }
  }
};

// What every reader does, in its order.
Status Start(const Original& original) {
  MILLRACE_ASSIGN_OR_RETURN(const SnapshotManifest manifest, CheckSnapshot(original.folder.path()));
  const StatusOr<std::string> exported =
      ExportSnapshot(original.folder.path(), manifest, original.folder.Path("model"));
  MILLRACE_CHECK(exported.ok() || !exported.status().message().empty());
  for (const SnapshotStart start : {SnapshotStart::kSameStream, SnapshotStart::kNewStream}) {
    MILLRACE_RETURN_IF_ERROR(CheckSnapshotFits(manifest, original.features, original.training,
                                               original.scenario.workers, start));
    TrainingDifferences(manifest, original.training);
    for (ShardId shard = 0; shard < original.scenario.shards; ++shard) {
      const ServerOptions options = simulation::MakeServerOptions(original.scenario, shard);
      MILLRACE_ASSIGN_OR_RETURN(
          const Checkpoint checkpoint,
          ReadFirstCheckpoint(original.folder.path(), manifest, options, start));
      MemoryByteMap store;
      WriteBatch batch;
      checkpoint.VisitRecords(0, [&](std::string_view key, std::string_view value) {
        batch.Put(std::string(key), std::string(value));
        return true;
      });
      MILLRACE_RETURN_IF_ERROR(store.Write(batch));
      ShardTask task(options, store);
      MILLRACE_RETURN_IF_ERROR(task.Load());
    }
  }
  return absl::OkStatus();
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  static const Original original;
  for (const auto& [name, content] : original.files) original.folder.Write(name, content);
  if (bytes.empty()) {
    const Status status = Start(original);
    MILLRACE_CHECK(status.ok());
    return;
  }
  for (size_t left = 1 + bytes.Below(2); left > 0; --left) {
    auto file = original.files.begin();
    std::advance(file, bytes.Below(original.files.size()));
    std::string content = file->second;
    Mutate(content, bytes);
    original.folder.Write(file->first, content);
  }
  // As whoever means harm would leave it: with checksums that fit.
  SnapshotManifest manifest;
  if (ReadJson(ManifestPath(original.folder.path()), manifest).ok() && !bytes.Chance(32)) {
    for (SnapshotPart& part : *manifest.mutable_parts()) {
      for (SnapshotPart::File& file : *part.mutable_files()) {
        const auto described = DescribeFile(original.folder.Path(file.name()));
        if (described.ok()) file = *described;
      }
    }
    if (bytes.Chance(128)) Mutate(manifest, bytes);
    // (JSON has no text that is not UTF-8.)
    if (!SealSnapshot(original.folder.path(), manifest).ok()) return;
  }
  const Status status = Start(original);
  MILLRACE_CHECK(status.ok() || !status.message().empty());
}

}  // namespace millrace::fuzz
