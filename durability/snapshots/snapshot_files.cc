#include "durability/snapshots/snapshot_files.h"

#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/file_checksum.h"
#include "base/file_error.h"
#include "base/private_file.h"
#include "base/regular_file.h"
#include "base/replace_folder.h"
#include "exports/json_forms.h"

namespace millrace {
namespace {

constexpr std::array<std::string_view, 5> kRowFiles = {
    "embedding-ids", "embedding-values", "embedding-slots", "embedding-updates", "embedding-times"};

// `what` begins with the file's path.
Status Damaged(const std::string& what) {
  return absl::DataLossError("the snapshot is damaged: " + what +
                             "; copy it again from where it was written, or use another snapshot");
}

Status Damaged(const std::string& path, const std::string& what) {
  return Damaged(path + ": " + what);
}

StatusOr<std::string> ReadText(const std::string& path) {
  StatusOr<std::string> text = ReadRegularFile(path, kMostJsonBytes);
  const std::string why(text.status().message());
  if (absl::IsNotFound(text.status())) return absl::NotFoundError(path + ": " + why);
  if (absl::IsOutOfRange(text.status())) {
    return Damaged(path, "it is larger than 256 MiB, the limit of such a file");
  }
  if (!text.ok()) return Damaged(path, why);
  return text;
}

Status TooLargeAFile(const std::string& path, const std::string& what) {
  return absl::ResourceExhaustedError(path + " cannot be written: " + what +
                                      ". The snapshot is not complete; to take snapshots, start a "
                                      "new job with fewer workers, shards or numeric columns");
}

StatusOr<std::string> JsonOf(const std::string& path, const google::protobuf::Message& message,
                             size_t most_bytes) {
  StatusOr<std::string> text = JsonLinesOf(message);
  if (!text.ok()) {
    return absl::InternalError(path + " cannot be written: " + std::string(TextOf(text.status())));
  }
  if (text->size() <= most_bytes) return text;
  return TooLargeAFile(path, std::to_string(text->size()) + " bytes, but " +
                                 std::to_string(most_bytes) + " is the limit of such a file");
}

// (In protobuf's bytes a message is smaller than in JSON, whose size is bounded.)
uint32_t ChecksumOf(SnapshotManifest manifest) {
  manifest.clear_crc32c();
  return Crc32c(manifest.SerializeAsString());
}

// That a part lists the files that its reader opens, and no others, and that they have room for as
// many keys and rows as it says: what is read is bounded by what is there.
Status CheckListedFiles(const std::string& path, const SnapshotPart& part) {
  std::map<std::string, uint64_t> listed;  // bytes
  for (const SnapshotPart::File& file : part.files()) listed[file.name()] = file.bytes();
  const auto name = [&part](std::string_view what, std::string_view extension) {
    return std::string(what) + "-" + std::to_string(part.shard()) + "." + std::string(extension);
  };
  const bool has_rows = part.files_size() > 3;
  std::set<std::string> expected = {name("weights", "npy"), name("slots", "npy"),
                                    name("state", "pb")};
  if (has_rows) {
    for (const std::string_view what : kRowFiles) expected.insert(name(what, "npy"));
    if (part.shrinkage() != 0) expected.insert(name("embedding-shrinkage", "npy"));
  }
  const bool same = listed.size() == expected.size() &&
                    static_cast<size_t>(part.files_size()) == expected.size() &&
                    std::ranges::all_of(expected, [&listed](const std::string& file) {
                      return listed.contains(file);
                    });
  if (!same) {
    return Damaged(path,
                   "part " + std::to_string(part.shard()) + " lists files that no snapshot has");
  }
  const uint64_t ids = has_rows ? listed.at(name(kRowFiles.front(), "npy")) : 0;
  if (part.end() - part.begin() > listed.at(name("weights", "npy")) / sizeof(float) ||
      part.rows() > ids / sizeof(EmbeddingId)) {
    return Damaged(path, "part " + std::to_string(part.shard()) +
                             " states more keys or rows than its files can hold");
  }
  return absl::OkStatus();
}

Status CheckFile(const std::string& folder, const SnapshotPart::File& file) {
  const std::string path = folder + "/" + file.name();
  MILLRACE_ASSIGN_OR_RETURN(const SnapshotPart::File found, DescribeFile(path));
  if (found.bytes() != file.bytes()) {
    return Damaged(path, std::to_string(found.bytes()) + " bytes, but the manifest states " +
                             std::to_string(file.bytes()));
  }
  if (found.crc32c() != file.crc32c())
    return Damaged(path, "its CRC-32C differs from the manifest's");
  return absl::OkStatus();
}

}  // namespace

std::string SnapshotFile(const std::string& folder, std::string_view what, ShardId shard,
                         std::string_view extension) {
  return folder + "/" + std::string(what) + "-" + std::to_string(shard) + "." +
         std::string(extension);
}

Status MakeSnapshotDir(const std::string& path) {
  if (const std::error_code error = MakePrivateFolder(path); error) {
    return CannotWrite(path, error.value());
  }
  return ::access(path.c_str(), W_OK | X_OK) == 0 ? absl::OkStatus() : CannotWrite(path, errno);
}

StatusOr<SnapshotPart::File> DescribeFile(const std::string& path) {
  const StatusOr<FileChecksum> found = ChecksumOfFile(path);
  if (!found.ok()) return Damaged(std::string(found.status().message()));
  SnapshotPart::File description;
  description.set_name(std::filesystem::path(path).filename());
  description.set_bytes(found->bytes);
  description.set_crc32c(found->crc32c);
  return description;
}

Status WriteJson(const std::string& path, const google::protobuf::Message& message,
                 size_t most_bytes) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, JsonOf(path, message, most_bytes));
  return WriteAtomicFile(path, text);
}

Status WriteState(const std::string& path, const ShardState& state, size_t most_bytes) {
  const StatusOr<std::string> bytes = SerializeMessage(state, most_bytes);
  if (absl::IsResourceExhausted(bytes.status())) {
    return TooLargeAFile(path, std::string(bytes.status().message()));
  }
  MILLRACE_RETURN_IF_ERROR(bytes.status());
  return WriteAtomicFile(path, *bytes);
}

Status ReadJson(const std::string& path, google::protobuf::Message& message) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  const auto parsed = google::protobuf::util::JsonStringToMessage(text, &message);
  if (parsed.ok()) return absl::OkStatus();
  return Damaged(path, std::string(parsed.message()));
}

Status NameSnapshot(const std::string& partial, const std::string& folder) {
  const std::error_code error = ReplaceFolder(partial, folder);
  return error ? CannotWrite(folder, error.value()) : absl::OkStatus();
}

std::string ManifestPath(const std::string& folder) { return folder + "/manifest.json"; }

Status CheckParts(const std::string& path, const SnapshotManifest& manifest) {
  uint64_t next = 0;
  ShardId shard = 0;
  for (const SnapshotPart& part : manifest.parts()) {
    if (part.shard() != shard++ || part.shards() != static_cast<uint32_t>(manifest.parts_size())) {
      return Damaged(path, "parts are missing");
    }
    if (part.begin() != next || part.end() < part.begin()) {
      return Damaged(path, "the shards' key ranges have gaps or overlap");
    }
    next = part.end();
    MILLRACE_RETURN_IF_ERROR(CheckListedFiles(path, part));
  }
  if (next != manifest.parameters() || manifest.parts_size() == 0) {
    return Damaged(path, "parts are missing");
  }
  return absl::OkStatus();
}

Status SealSnapshot(const std::string& folder, SnapshotManifest manifest) {
  // Of what a reader will have: JSON names defaults that are not set here.
  MILLRACE_ASSIGN_OR_RETURN(const std::string text,
                            JsonOf(ManifestPath(folder), manifest, kMostJsonBytes));
  SnapshotManifest as_read;
  if (!google::protobuf::util::JsonStringToMessage(text, &as_read).ok()) {
    return absl::InternalError("a manifest cannot be read back from JSON");
  }
  manifest.set_crc32c(ChecksumOf(std::move(as_read)));
  return WriteJson(ManifestPath(folder), manifest);
}

StatusOr<SnapshotManifest> ReadManifest(const std::string& folder) {
  SnapshotManifest manifest;
  const std::string path = ManifestPath(folder);
  const Status read = ReadJson(path, manifest);
  if (absl::IsNotFound(read)) {
    return absl::NotFoundError("no snapshot in " + folder +
                               ", or one that was not completed: " + std::string(read.message()));
  }
  MILLRACE_RETURN_IF_ERROR(read);
  if (manifest.format() != kSnapshotFormat) {
    return absl::DataLossError(path + ": format " + std::to_string(manifest.format()) +
                               ", but this program reads format " +
                               std::to_string(kSnapshotFormat) +
                               "; use the version of Millrace that wrote it");
  }
  if (manifest.crc32c() != ChecksumOf(manifest)) {
    return Damaged(path, "its own CRC-32C is wrong: the file was changed after it was written");
  }
  MILLRACE_RETURN_IF_ERROR(CheckParts(path, manifest));
  // Where a job had no column of text, older versions wrote that its name is "".
  auto& texts = *manifest.mutable_features()->mutable_spec()->mutable_text();
  texts.erase(std::remove(texts.begin(), texts.end(), ""), texts.end());
  return manifest;
}

StatusOr<SnapshotManifest> CheckSnapshot(const std::string& folder) {
  MILLRACE_ASSIGN_OR_RETURN(SnapshotManifest manifest, ReadManifest(folder));
  for (const SnapshotPart& part : manifest.parts()) {
    for (const SnapshotPart::File& file : part.files()) {
      MILLRACE_RETURN_IF_ERROR(CheckFile(folder, file));
    }
  }
  return manifest;
}

}  // namespace millrace
