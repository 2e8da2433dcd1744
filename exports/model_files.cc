#include "exports/model_files.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/file_checksum.h"
#include "base/printable.h"
#include "base/regular_file.h"
#include "exports/dense_model.h"
#include "exports/json_forms.h"
#include "exports/known_members.h"
#include "exports/model_shape.h"

namespace millrace {
namespace {

constexpr size_t kMostJsonBytes = size_t{256} << 20;
// The last field of the file. (A name or class in quotes has its quotes escaped.)
constexpr std::string_view kChecksumField = "\"crc32c\":";

std::string PathOf(const std::string& folder, std::string_view file) {
  return folder + "/" + std::string(file);
}

StatusOr<std::string> JsonFor(const std::string& path, const google::protobuf::Message& message) {
  StatusOr<std::string> text = JsonLinesOf(message);
  if (!text.ok()) {
    return absl::InternalError(path + " cannot be written: " + std::string(TextOf(text.status())));
  }
  if (text->size() <= kMostJsonBytes) return text;
  return absl::ResourceExhaustedError(path +
                                      " cannot be written: it would be larger than 256 MiB, the "
                                      "limit of such a file; use fewer classes or columns");
}

StatusOr<std::string> ReadText(const std::string& path) {
  StatusOr<std::string> text = ReadRegularFile(path, kMostJsonBytes);
  const std::string why(text.status().message());
  if (absl::IsNotFound(text.status())) return absl::NotFoundError(path + ": " + why);
  if (absl::IsOutOfRange(text.status())) return DamagedModel(path + ": it is larger than 256 MiB");
  if (!text.ok()) return DamagedModel(path + ": " + why);
  return text;
}

// Of what is before the checksum. (Each array's own checksum has the same name, and is before it.)
StatusOr<uint32_t> ChecksumOf(const std::string& path, std::string_view text) {
  const size_t end = text.rfind(kChecksumField);
  if (end == std::string_view::npos) return DamagedModel(path + ": it has no crc32c");
  return Crc32c(text.substr(0, end));
}

// A later version may write members that this one does not know (docs/model-format.md). In the
// place of a value that is not known there would be the default, which is another model.
Status CheckMembersOf(const std::string& path, const std::string& text,
                      const ModelDescription& description) {
  const bool is_ours = description.millrace() == MILLRACE_VERSION;
  KnownMembers known{.ignores_unknown = !is_ours};
  if (!is_ours) known.unread = {"training", "progressive", "window"};
  Status checked = CheckMembers(text, *ModelDescription::descriptor(), known);
  if (checked.ok()) return checked;
  const std::string remedy =
      is_ours ? "Somebody has edited the file: export the model again (ServerApp --export)"
              : "Use the version of Millrace that wrote it (" +
                    Printable(description.millrace(), 100) + ")";
  return absl::DataLossError(path + ": " + std::string(checked.message()) + ". " + remedy);
}

StatusOr<ModelDescription> Parse(const std::string& path, const std::string& text) {
  ModelDescription description;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // another format may have them: the format is said first
  const auto parsed = google::protobuf::util::JsonStringToMessage(text, &description, options);
  if (!parsed.ok()) return DamagedModel(path + ": " + std::string(parsed.message()));
  // (One of format 1 has no range of estimates.)
  if (description.format() < 1 || description.format() > kModelFormat) {
    return absl::DataLossError(path + ": format " + std::to_string(description.format()) +
                               ", but this program reads formats up to " +
                               std::to_string(kModelFormat) +
                               "; use the version of Millrace that wrote it");
  }
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t checksum, ChecksumOf(path, text));
  if (checksum != description.crc32c()) {
    return DamagedModel(path + ": its own CRC-32C is wrong: it was changed after it was written");
  }
  MILLRACE_RETURN_IF_ERROR(CheckMembersOf(path, text, description));
  const Status valid = CheckDescription(description);
  if (!valid.ok()) return DamagedModel(path + ": " + std::string(valid.message()));
  return description;
}

Status CheckFile(const std::string& path, const SnapshotPart::File& listed) {
  const StatusOr<FileChecksum> found = ChecksumOfFile(path);
  if (!found.ok()) return DamagedModel(std::string(found.status().message()));
  if (found->bytes != listed.bytes()) {
    return DamagedModel(path + ": " + std::to_string(found->bytes) + " bytes, but " +
                        kDescriptionFile + " states " + std::to_string(listed.bytes()));
  }
  if (found->crc32c != listed.crc32c()) {
    return DamagedModel(path + ": its CRC-32C differs from that in " + kDescriptionFile);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> FilesOf(const ModelShape& shape) {
  std::vector<std::string> names = {kWeightsFile};
  if (shape.numeric() > 0) names.emplace_back(kMomentsFile);
  if (shape.row_width() > 0) names.insert(names.end(), {kIdsFile, kRowsFile});
  if (WhyNotDense(shape).empty()) names.insert(names.end(), {kGraphFile, kEncoderFile});
  return names;
}

Status WriteJsonFile(const std::string& path, const google::protobuf::Message& message) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, JsonFor(path, message));
  return WriteAtomicFile(path, text);
}

Status DamagedModel(const std::string& what) {
  return absl::DataLossError("the model is damaged: " + what +
                             "; copy it again from where it was written, or export it again");
}

Status SealModel(const std::string& folder, ModelDescription description) {
  description.set_format(kModelFormat);
  description.set_millrace(MILLRACE_VERSION);
  description.clear_files();
  for (const std::string& name : FilesOf(description.shape())) {
    MILLRACE_ASSIGN_OR_RETURN(const FileChecksum found, ChecksumOfFile(PathOf(folder, name)));
    SnapshotPart::File& file = *description.add_files();
    file.set_name(name);
    file.set_bytes(found.bytes);
    file.set_crc32c(found.crc32c);
  }
  const std::string path = PathOf(folder, kDescriptionFile);
  description.clear_crc32c();
  MILLRACE_ASSIGN_OR_RETURN(const std::string unsealed, JsonFor(path, description));
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t checksum, ChecksumOf(path, unsealed));
  description.set_crc32c(checksum);
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, JsonFor(path, description));
  return WriteAtomicFile(path, text);
}

StatusOr<ModelDescription> CheckModelFiles(const std::string& folder) {
  const std::string path = PathOf(folder, kDescriptionFile);
  const StatusOr<std::string> text = ReadText(path);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError("no model in " + folder + ": " +
                               std::string(text.status().message()) +
                               "; give a folder that ServerApp has exported");
  }
  MILLRACE_RETURN_IF_ERROR(text.status());
  MILLRACE_ASSIGN_OR_RETURN(ModelDescription description, Parse(path, *text));
  // (Other versions may list more files, and no ONNX: no prediction of ours depends on these.)
  for (const std::string& name : FilesOf(description.shape())) {
    const auto listed = std::ranges::find_if(
        description.files(), [&](const SnapshotPart::File& file) { return file.name() == name; });
    if (listed != description.files().end()) {
      MILLRACE_RETURN_IF_ERROR(CheckFile(PathOf(folder, name), *listed));
    } else if (name != kGraphFile && name != kEncoderFile) {
      return DamagedModel(path + ": it does not list " + name);
    }
  }
  return description;
}

}  // namespace millrace
