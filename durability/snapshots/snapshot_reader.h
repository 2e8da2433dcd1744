// Starts a shard from a snapshot, whatever number of shards wrote it.
#pragma once

#include <string>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/snapshot.pb.h"
#include "processors/server_processor.h"
#include "tasks/checkpoint.h"

namespace millrace {

// Where a job that starts from a snapshot begins in its stream.
enum class SnapshotStart {
  kSameStream,  // behind the rows that the snapshot has learnt from: clocks go on
  kNewStream,   // at its first row: weights, optimizer state and embedding rows only
};
SnapshotStart ToSnapshotStart(const JobConfig& config);  // as --new-stream has it

// InvalidArgument, with what differs, when the job's model is not the snapshot's, or when it would
// not go on behind the rows that the snapshot has learnt from.
Status CheckSnapshotFits(const SnapshotManifest& manifest, const JobFeatures& features,
                         const Training& training, uint32_t workers, SnapshotStart start);
// What is set otherwise than it was for the snapshot, a line each; empty: nothing. What may differ
// is a choice, but more often a flag that was forgotten.
std::string TrainingDifferences(const SnapshotManifest& manifest, const Training& training);

// The shard as it is at the start of the job, as its first checkpoint, at position 0. REQUIRES:
// CheckSnapshot, CheckSnapshotFits. DataLoss, with the file's name.
StatusOr<Checkpoint> FirstCheckpoint(const std::string& folder, const SnapshotManifest& manifest,
                                     const ServerOptions& options, SnapshotStart start);

}  // namespace millrace
