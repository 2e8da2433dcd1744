#include "exports/model_writer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <vector>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/private_file.h"
#include "base/replace_folder.h"
#include "base/write_lock.h"
#include "exports/dense_model.h"
#include "exports/encoder_description.h"
#include "exports/exported_model.h"
#include "exports/model_files.h"
#include "exports/model_shape.h"
#include "exports/onnx_model.h"
#include "formats/npy_file.h"
#include "models/model.h"

namespace millrace {
namespace {

// Where a folder of this name is, or will be: ".partial" is put behind it. A link to a folder goes
// on leading there.
StatusOr<std::string> PlaceOf(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  std::error_code error;
  if (!std::filesystem::is_symlink(folder, error)) return folder;
  const std::filesystem::path place = std::filesystem::canonical(folder, error);
  if (!error) return place.string();
  return absl::FailedPreconditionError(
      folder + " is a link that leads to no folder; remove it, or give another folder");
}

bool AreNumbers(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

Status NoNumbers(const std::string& what) {
  return absl::DataLossError("the model cannot be exported: " + what +
                             " is infinite or no number; train it with smaller steps "
                             "(--learning-rate), or export a model from before that");
}

Status WriteWeights(const std::string& folder, const ModelToWrite& model) {
  const size_t expected = MakePredictor(model.description)->parameter_count();
  if (model.weights.size() != expected) {
    return absl::DataLossError("the model cannot be exported: it has " +
                               std::to_string(model.weights.size()) + " weights instead of " +
                               std::to_string(expected) + "; use the snapshot's own features");
  }
  if (!AreNumbers(model.weights)) return NoNumbers("a weight");
  const std::string path = folder + "/" + kWeightsFile;
  const size_t columns = WeightColumns(model.description);
  if (columns == 0) return WriteNpy(path, model.weights, model.weights.size(), std::nullopt);
  return WriteNpy(path, model.weights, model.weights.size() / columns, columns);
}

Status WriteMoments(const std::string& folder, const Moments& moments) {
  if (moments.columns() == 0) return absl::OkStatus();
  std::vector<double> rows = moments.count;
  rows.insert(rows.end(), moments.mean.begin(), moments.mean.end());
  rows.insert(rows.end(), moments.m2.begin(), moments.m2.end());
  return WriteNpy(folder + "/" + kMomentsFile, rows, 3, moments.columns());
}

Status WriteRows(const std::string& folder, const ModelToWrite& model) {
  const size_t width = model.description.shape().row_width();
  if (width == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(NpyWriter ids,
                            NpyWriter::Create(folder + "/" + kIdsFile, kNpyUint64, std::nullopt));
  MILLRACE_ASSIGN_OR_RETURN(NpyWriter rows,
                            NpyWriter::Create(folder + "/" + kRowsFile, kNpyFloat, width));
  size_t count = 0;
  std::optional<EmbeddingId> last;
  const auto take = [&](EmbeddingId id, std::span<const float> row) -> Status {
    if (row.size() != width || (last && *last >= id)) {
      return absl::DataLossError(
          "the model cannot be exported: its embedding rows are not in the "
          "order of their ids, each once; use another snapshot");
    }
    if (!AreNumbers(row)) return NoNumbers("a value of an embedding row");
    last = id;
    ++count;
    MILLRACE_RETURN_IF_ERROR(ids.Append(std::span<const EmbeddingId>(&id, 1)));
    return rows.Append(row);
  };
  if (model.visit_rows) MILLRACE_RETURN_IF_ERROR(model.visit_rows(take));
  MILLRACE_RETURN_IF_ERROR(ids.Finish(count));
  return rows.Finish(count);
}

// What other programs predict by, of a model that has that form.
Status WriteGraph(const std::string& folder, const ModelToWrite& model) {
  const ModelShape& shape = model.description.shape();
  if (!WhyNotDense(shape).empty()) return absl::OkStatus();
  ExportedModel whole{.description = model.description,
                      .weights = {model.weights.begin(), model.weights.end()},
                      .ids = {},
                      .rows = {},
                      .moments = model.moments};
  const auto take = [&whole](EmbeddingId id, std::span<const float> row) {
    whole.ids.push_back(id);
    whole.rows.insert(whole.rows.end(), row.begin(), row.end());
    return absl::OkStatus();
  };
  if (model.visit_rows) MILLRACE_RETURN_IF_ERROR(model.visit_rows(take));
  MILLRACE_RETURN_IF_ERROR(
      WriteAtomicFile(folder + "/" + kGraphFile, ToOnnx(whole.description, ToDense(whole))));
  return WriteJsonFile(folder + "/" + kEncoderFile,
                       DescribeEncoder(whole.description, whole.moments));
}

Status WriteAll(const std::string& folder, const ModelToWrite& model) {
  MILLRACE_RETURN_IF_ERROR(WriteWeights(folder, model));
  MILLRACE_RETURN_IF_ERROR(WriteMoments(folder, model.moments));
  MILLRACE_RETURN_IF_ERROR(WriteRows(folder, model));
  MILLRACE_RETURN_IF_ERROR(WriteGraph(folder, model));
  return SealModel(folder, model.description);
}

}  // namespace

Status CheckModelFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) return absl::OkStatus();
  bool has_description = false;
  std::string other;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    has_description |= name == kDescriptionFile;
    if (std::ranges::find(kAllFiles, name) == kAllFiles.end()) other = name;
  }
  if (error) return CannotWrite(folder, error.value());
  if (other.empty() && (has_description || fs::is_empty(folder, error))) return absl::OkStatus();
  return absl::FailedPreconditionError(folder + " is there, and is no model" +
                                       (other.empty() ? "" : " (it has " + other + ")") +
                                       ": it is not replaced; give a new folder");
}

Status WriteModel(const std::string& folder_name, const ModelToWrite& model) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string folder, PlaceOf(folder_name));
  MILLRACE_RETURN_IF_ERROR(CheckModelFolder(folder));
  MILLRACE_RETURN_IF_ERROR(CheckDescription(model.description));
  if (!model.moments.IsValid() || model.moments.columns() != model.description.shape().numeric()) {
    return absl::DataLossError(
        "the model cannot be exported: the moments of its numeric columns "
        "are those of no numbers; use another snapshot");
  }
  const std::string partial = folder + ".partial";
  MILLRACE_RETURN_IF_ERROR(WriteLock::RemoveAbandonedFolder(partial, folder));
  std::error_code error = MakePrivateFolder(partial);
  if (error) return CannotWrite(partial, error.value());
  MILLRACE_ASSIGN_OR_RETURN(const WriteLock lock, WriteLock::Take(partial, folder));
  Status written = WriteAll(partial, model);
  if (written.ok()) {
    error = ReplaceFolder(partial, folder);
    if (error) written = CannotWrite(folder, error.value());
  }
  if (!written.ok()) std::filesystem::remove_all(partial, error);
  return written;
}

}  // namespace millrace
