// Starts a shard from a snapshot, whatever number of shards wrote it.
#pragma once

#include <string>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "messages/snapshot.pb.h"
#include "processors/server_processor.h"
#include "tasks/first_checkpoint.h"

namespace millrace {

// A shard's state-S.pb. DataLoss with the path.
StatusOr<ShardState> ReadSnapshotState(const std::string& path);

SnapshotStart ToSnapshotStart(const JobConfig& config);  // by --new-stream

// InvalidArgument, with what differs, when the job's model is not the snapshot's, or when the job
// would not continue after the rows that the snapshot was trained on.
Status CheckSnapshotFits(const SnapshotManifest& manifest, const JobFeatures& features,
                         const Training& training, uint32_t workers, SnapshotStart start);
// The settings that differ from the snapshot's, a line each; empty: none. These settings may
// differ, but often a flag was forgotten.
std::string TrainingDifferences(const SnapshotManifest& manifest, const Training& training);

// The shard as it is at the start of the job (FirstCheckpoint). REQUIRES: the manifest passed
// CheckSnapshot, and a manifest of this folder CheckSnapshotFits. DataLoss, with the file's name;
// also when the model has other keys, since the folder may have changed in between.
StatusOr<Checkpoint> ReadFirstCheckpoint(const std::string& folder,
                                         const SnapshotManifest& manifest,
                                         const ServerOptions& options, SnapshotStart start);

}  // namespace millrace
