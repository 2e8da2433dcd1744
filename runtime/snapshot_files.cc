#include "runtime/snapshot_files.h"

#include <google/protobuf/util/json_util.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/crc32c.h"
#include "base/new_file.h"

namespace millrace {
namespace {

Status Damaged(const std::string& path, const std::string& what) {
  return absl::DataLossError("the snapshot is damaged: " + path + ": " + what);
}

StatusOr<std::string> ReadWhole(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return absl::NotFoundError(path + ": " + std::strerror(errno));
  std::string text;
  std::array<char, 1 << 16> bytes{};
  while (const size_t got = std::fread(bytes.data(), 1, bytes.size(), file.get())) {
    text.append(bytes.data(), got);
  }
  if (std::ferror(file.get()) != 0) return Damaged(path, std::strerror(EIO));
  return text;
}

}  // namespace

std::string SnapshotFile(const std::string& folder, std::string_view what, ShardId shard,
                         std::string_view extension) {
  return folder + "/" + std::string(what) + "-" + std::to_string(shard) + "." +
         std::string(extension);
}

StatusOr<SnapshotPart::File> DescribeFile(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return Damaged(path, std::strerror(errno));
  SnapshotPart::File description;
  description.set_name(std::filesystem::path(path).filename());
  std::array<char, 1 << 16> bytes{};
  uint32_t crc = 0;
  while (const size_t got = std::fread(bytes.data(), 1, bytes.size(), file.get())) {
    crc = Crc32c({bytes.data(), got}, crc);
    description.set_bytes(description.bytes() + got);
  }
  if (std::ferror(file.get()) != 0) return Damaged(path, std::strerror(EIO));
  description.set_crc32c(crc);
  return description;
}

Status WriteJson(const std::string& path, const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) {
    return absl::InternalError(path + ": the message cannot be written as JSON");
  }
  return WriteNewFile(path, text);
}

Status ReadJson(const std::string& path, google::protobuf::Message& message) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadWhole(path));
  const auto parsed = google::protobuf::util::JsonStringToMessage(text, &message);
  if (parsed.ok()) return absl::OkStatus();
  return Damaged(path, std::string(parsed.message()));
}

StatusOr<SnapshotManifest> CheckSnapshot(const std::string& folder) {
  SnapshotManifest manifest;
  const std::string path = folder + "/manifest.json";
  const Status read = ReadJson(path, manifest);
  if (absl::IsNotFound(read)) {
    return absl::NotFoundError("there is no snapshot in " + folder +
                               ", or one that was not ended: " + std::string(read.message()));
  }
  MILLRACE_RETURN_IF_ERROR(read);
  if (manifest.format() != kSnapshotFormat) {
    return absl::DataLossError(path + ": format " + std::to_string(manifest.format()) +
                               " where this program knows " + std::to_string(kSnapshotFormat));
  }
  std::set<ShardId> shards;
  uint64_t next = 0;
  for (const SnapshotPart& part : manifest.parts()) {
    shards.insert(part.shard());
    if (part.begin() != next || part.end() < part.begin()) {
      return Damaged(path, "the shards' keys do not follow each other");
    }
    next = part.end();
    for (const SnapshotPart::File& file : part.files()) {
      const std::string name = folder + "/" + file.name();
      MILLRACE_ASSIGN_OR_RETURN(const SnapshotPart::File found, DescribeFile(name));
      if (found.bytes() != file.bytes()) {
        return Damaged(name, std::to_string(found.bytes()) + " bytes where the manifest says " +
                                 std::to_string(file.bytes()));
      }
      if (found.crc32c() != file.crc32c()) return Damaged(name, "its checksum is another");
    }
  }
  if (shards.size() != static_cast<size_t>(manifest.parts_size()) ||
      next != manifest.parameters() || manifest.parts_size() == 0) {
    return Damaged(path, "parts are missing");
  }
  return manifest;
}

}  // namespace millrace
