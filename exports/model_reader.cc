#include "exports/model_reader.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "exports/model_files.h"
#include "exports/model_shape.h"
#include "formats/npy_file.h"
#include "models/model.h"

namespace millrace {
namespace {

// One of the model's arrays.
class Array {
 public:
  Array(const std::string& folder, std::string_view file, const ModelDescription& description)
      : path_(folder + "/" + std::string(file)) {
    for (const SnapshotPart::File& listed : description.files()) {
      if (listed.name() == file) bytes_ = listed.bytes();
    }
  }

  // `rows`: as many as there must be; none: as many as there are.
  template <typename T>
  Status Read(std::string_view type, std::optional<size_t> columns, std::optional<size_t> rows,
              std::vector<T>& values) const {
    StatusOr<NpyReader> reader = NpyReader::Open(path_, type, columns);
    if (!reader.ok()) return DamagedModel(std::string(reader.status().message()));
    const size_t width = columns.value_or(1);
    if (reader->rows() > bytes_ / sizeof(T) / width)
      return Wrong("the file has fewer values than its header says");
    if (rows && *rows != reader->rows()) {
      return Wrong(std::to_string(reader->rows()) + " rows instead of " + std::to_string(*rows));
    }
    values.resize(reader->rows() * width);
    const Status read = reader->Read(std::span<T>(values));
    return read.ok() ? read : DamagedModel(std::string(read.message()));
  }
  Status Wrong(const std::string& what) const { return DamagedModel(path_ + ": " + what); }

 private:
  std::string path_;
  uint64_t bytes_ = 0;
};

Status ReadFloats(const Array& array, std::optional<size_t> columns, size_t rows,
                  std::vector<float>& values) {
  MILLRACE_RETURN_IF_ERROR(array.Read(kNpyFloat, columns, rows, values));
  const auto is_number = [](float value) { return std::isfinite(value); };
  if (std::ranges::all_of(values, is_number)) return absl::OkStatus();
  return array.Wrong("a value is infinite or no number");
}

Status ReadMoments(const Array& array, size_t columns, Moments& moments) {
  std::vector<double> values;
  MILLRACE_RETURN_IF_ERROR(array.Read(kNpyDouble, columns, 3, values));
  const auto row = [&](size_t i) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(i * columns);
    return std::vector<double>(begin, begin + static_cast<ptrdiff_t>(columns));
  };
  moments.count = row(0);
  moments.mean = row(1);
  moments.m2 = row(2);
  return moments.IsValid() ? absl::OkStatus()
                           : array.Wrong("its values are the moments of no numbers");
}

Status ReadIds(const Array& array, std::vector<EmbeddingId>& ids) {
  MILLRACE_RETURN_IF_ERROR(array.Read(kNpyUint64, std::nullopt, std::nullopt, ids));
  if (std::ranges::adjacent_find(ids, std::greater_equal<>()) == ids.end()) return absl::OkStatus();
  return array.Wrong("its ids are not ascending");
}

}  // namespace

StatusOr<ExportedModel> ReadModel(const std::string& folder) {
  ExportedModel model;
  MILLRACE_ASSIGN_OR_RETURN(model.description, CheckModelFiles(folder));
  const ModelShape& shape = model.description.shape();
  const auto array = [&](std::string_view file) { return Array(folder, file, model.description); };
  const size_t parameters = MakePredictor(model.description)->parameter_count();
  const size_t columns = WeightColumns(model.description);
  MILLRACE_RETURN_IF_ERROR(ReadFloats(array(kWeightsFile),
                                      columns > 0 ? std::optional(columns) : std::nullopt,
                                      parameters / std::max<size_t>(columns, 1), model.weights));
  if (shape.numeric() > 0) {
    MILLRACE_RETURN_IF_ERROR(ReadMoments(array(kMomentsFile), shape.numeric(), model.moments));
  }
  if (shape.row_width() == 0) return model;
  MILLRACE_RETURN_IF_ERROR(ReadIds(array(kIdsFile), model.ids));
  MILLRACE_RETURN_IF_ERROR(
      ReadFloats(array(kRowsFile), shape.row_width(), model.ids.size(), model.rows));
  return model;
}

}  // namespace millrace
