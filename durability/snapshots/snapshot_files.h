// A snapshot on disk: which files, and whether they are whole.
//
//   manifest.json            SnapshotManifest (messages/snapshot.proto), written last
//   part-S.json              SnapshotPart of shard S
//   weights-S.npy            float32 (keys): the shard's dense parameters [begin, end)
//   slots-S.npy              float32 (slots, keys): the optimizer's state, slot by slot
//   embedding-ids-S.npy      uint64 (rows)
//   embedding-values-S.npy   float32 (rows, width)
//   embedding-slots-S.npy    float32 (rows, slots of a row)
//   embedding-updates-S.npy  uint32 (rows): that named the row, counted up to --admit-after
//   embedding-times-S.npy    int64 (rows): milliseconds of the last one, by the log
//   state-S.pb               ShardState without what a worker says again
//
// A row with fewer updates than --admit-after (training.embedding.admit_after in the manifest) is
// not admitted: its values and slots are zeros here. Who asks a server for it is given the values
// that it will be born with, a function of (seed, table, id), as for an id that is not here. A row
// that has expired is not here, unless it did so a moment ago.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "messages/snapshot.pb.h"

namespace millrace {

inline constexpr uint32_t kSnapshotFormat = 2;

// "FOLDER/weights-2.npy"
std::string SnapshotFile(const std::string& folder, std::string_view what, ShardId shard,
                         std::string_view extension);

// Makes the folder of a job's snapshots, if it is not there. Errors are those of CannotWrite.
Status MakeSnapshotDir(const std::string& path);

// Size and checksum of a file. Errors: DataLoss, with its name.
StatusOr<SnapshotPart::File> DescribeFile(const std::string& path);

// JSON, as a AtomicFile.
Status WriteJson(const std::string& path, const google::protobuf::Message& message);
// NotFound when there is no such file; DataLoss when it is not what `message` is.
Status ReadJson(const std::string& path, google::protobuf::Message& message);

// Appended to a snapshot's name while it is written.
inline constexpr char kPartialSnapshot[] = ".partial";
// Gives a folder that is whole the name that it is found by. One of that name, of an earlier run of
// the job, is replaced. Errors are those of CannotWrite.
Status NameSnapshot(const std::string& partial, const std::string& folder);

std::string ManifestPath(const std::string& folder);
// Gives the manifest its checksum and writes it: with it the folder is a snapshot.
Status SealSnapshot(const std::string& folder, SnapshotManifest manifest);
// Reads the manifest and holds it against its checksum. Errors name the file and what to do:
// NotFound, DataLoss.
StatusOr<SnapshotManifest> ReadManifest(const std::string& folder);
// The same, and every file is held against the manifest.
StatusOr<SnapshotManifest> CheckSnapshot(const std::string& folder);

}  // namespace millrace
