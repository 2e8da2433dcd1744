#include "python/src/model_handle.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "exports/json_forms.h"
#include "exports/model_reader.h"

namespace millrace {

Status InRow(size_t row, const Status& status) {
  if (status.ok()) return status;
  return Status(status.code(), absl::StrCat("rows[", row, "]: ", status.message()));
}

StatusOr<std::unique_ptr<ModelHandle>> ModelHandle::Load(const std::string& folder) {
  MILLRACE_ASSIGN_OR_RETURN(ExportedModel model, ReadModel(folder));
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder encoder,
                            FeatureEncoder::Create(model.description.features()));
  return std::unique_ptr<ModelHandle>(new ModelHandle(std::move(model), std::move(encoder)));
}

ModelHandle::ModelHandle(ExportedModel model, FeatureEncoder encoder)
    : scorer_(std::move(model)), encoder_(std::move(encoder)) {}

std::vector<std::string> ModelHandle::columns() const {
  const std::vector<std::string>& required = encoder_.required_columns();
  return {required.begin() + 1, required.end()};
}

std::vector<std::string> ModelHandle::classes() const {
  const auto& classes = scorer_.model().description.features().classes();
  return {classes.begin(), classes.end()};
}

std::string ModelHandle::description() const {
  // (A description that was read from JSON has a form in JSON.)
  return JsonOfModel(scorer_.model().description).value_or("");
}

std::unique_ptr<ModelHandle::Encoding> ModelHandle::Take() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Encoding> encoding = std::move(idle_.back());
      idle_.pop_back();
      return encoding;
    }
  }
  return std::make_unique<Encoding>(Encoding{encoder_, {}});
}

void ModelHandle::GiveBack(std::unique_ptr<Encoding> encoding) const {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(encoding));
}

Status ModelHandle::Score(const CellTable& cells, size_t first_row,
                          std::vector<float>& scores) const {
  std::unique_ptr<Encoding> encoding = Take();
  const size_t count = cells.rows();
  if (encoding->rows.size() < count) encoding->rows.resize(count);
  std::vector<std::string_view> fields;
  std::vector<const Row*> rows(count);
  Status status;
  for (size_t i = 0; i < count && status.ok(); ++i) {
    cells.Read(i, fields);
    rows[i] = &encoding->rows[i];
    status = InRow(first_row + i, encoding->encoder.EncodeFeatures(fields, &encoding->rows[i]));
  }
  if (status.ok()) {
    const size_t before = scores.size();
    scores.resize(before + count * score_count());
    scorer_.Score(rows, std::span(scores).subspan(before));
  }
  GiveBack(std::move(encoding));
  return status;
}

}  // namespace millrace
