#include "exports/model_writer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <vector>

#include "base/file_error.h"
#include "base/private_file.h"
#include "base/replace_folder.h"
#include "exports/model_files.h"
#include "exports/model_shape.h"
#include "formats/npy_file.h"
#include "models/model.h"

namespace millrace {
namespace {

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

Status WriteAll(const std::string& folder, const ModelToWrite& model) {
  if (const std::error_code error = MakePrivateFolder(folder); error) {
    return CannotWrite(folder, error.value());
  }
  MILLRACE_RETURN_IF_ERROR(WriteWeights(folder, model));
  MILLRACE_RETURN_IF_ERROR(WriteMoments(folder, model.moments));
  MILLRACE_RETURN_IF_ERROR(WriteRows(folder, model));
  return SealModel(folder, model.description);
}

}  // namespace

Status CheckModelFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(folder, error) || fs::is_empty(folder, error) ||
      fs::exists(folder + "/" + kDescriptionFile, error)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      folder + " is there, and is no model: it is not replaced; give a new folder");
}

Status WriteModel(const std::string& folder, const ModelToWrite& model) {
  MILLRACE_RETURN_IF_ERROR(CheckModelFolder(folder));
  MILLRACE_RETURN_IF_ERROR(CheckDescription(model.description));
  if (!model.moments.IsValid() || model.moments.columns() != model.description.shape().numeric()) {
    return absl::DataLossError(
        "the model cannot be exported: the moments of its numeric columns "
        "are those of no numbers; use another snapshot");
  }
  const std::string partial = folder + ".partial";
  std::error_code error;
  std::filesystem::remove_all(partial, error);  // of a process that was killed
  Status written = WriteAll(partial, model);
  if (written.ok()) {
    error = ReplaceFolder(partial, folder);
    if (error) written = CannotWrite(folder, error.value());
  }
  if (!written.ok()) std::filesystem::remove_all(partial, error);
  return written;
}

}  // namespace millrace
