// A snapshot on disk: its files, and whether they are complete.
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
//   embedding-shrinkage-S.npy
//                            float64 (rows): the part's `shrinkage` after the last one; only where
//                            rows miss L2 penalties
//   state-S.pb               ShardState without what a worker says again
//
// A row with fewer updates than --admit-after (training.embedding.admit_after in the manifest) is
// not admitted: its values and slots are zeros here. A server answers a request for it with its
// initial values, a function of (seed, table, id), as for an id that is not in the files. A row
// that has expired is not in the files, unless it expired a moment ago.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "messages/snapshot.pb.h"
#include "topics/message_codec.h"

namespace millrace {

inline constexpr uint32_t kSnapshotFormat = 3;

// "FOLDER/weights-2.npy"
std::string SnapshotFile(const std::string& folder, std::string_view what, ShardId shard,
                         std::string_view extension);

// Creates the folder of a job's snapshots, if it does not exist. Errors are those of CannotWrite.
Status MakeSnapshotDir(const std::string& path);

// Size and checksum of a file. Errors: DataLoss, with its name.
StatusOr<SnapshotPart::File> DescribeFile(const std::string& path);

// The largest JSON file that is written and read.
inline constexpr size_t kMostJsonBytes = size_t{256} << 20;
// JSON, as an AtomicFile. ResourceExhausted, with the file's name, when it would be larger than
// `most_bytes`.
Status WriteJson(const std::string& path, const google::protobuf::Message& message,
                 size_t most_bytes = kMostJsonBytes);
// A shard's state, as an AtomicFile. ResourceExhausted, with the file's name, when it is larger
// than `most_bytes`.
Status WriteState(const std::string& path, const ShardState& state,
                  size_t most_bytes = kMostMessageBytes);
// NotFound when there is no such file; DataLoss when it is not a message of this type.
Status ReadJson(const std::string& path, google::protobuf::Message& message);

// Appended to a snapshot's name while it is written.
inline constexpr char kPartialSnapshot[] = ".partial";
// Renames a complete snapshot's folder to its final name. A folder of that name, from an earlier
// run of the job, is replaced. Errors are those of CannotWrite.
Status NameSnapshot(const std::string& partial, const std::string& folder);

std::string ManifestPath(const std::string& folder);
// Whether the manifest's parts are those of one snapshot, and their files have room for the keys
// and rows that they state. DataLoss if not, with `path`.
Status CheckParts(const std::string& path, const SnapshotManifest& manifest);
// Sets the manifest's checksum and writes it, which makes the folder a snapshot.
Status SealSnapshot(const std::string& folder, SnapshotManifest manifest);
// Reads the manifest and checks its checksum. Errors name the file and what to do: NotFound,
// DataLoss.
StatusOr<SnapshotManifest> ReadManifest(const std::string& folder);
// The same, and every file is checked against the manifest.
StatusOr<SnapshotManifest> CheckSnapshot(const std::string& folder);

}  // namespace millrace
