#include "predictor/contributions.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "exports/embedding_rows.h"
#include "features/category_hasher.h"
#include "features/name_list.h"
#include "features/quantile_bins.h"
#include "models/online_learner.h"

namespace millrace {
namespace {

std::string Json(double number) { return nlohmann::json(number).dump(); }
std::string Json(const std::string& text) { return nlohmann::json(text).dump(); }

const char* NameOf(ModelShape::Kind kind) {
  switch (kind) {
    case ModelShape::FACTORIZATION_MACHINE:
      return "a factorization machine";
    case ModelShape::DEEP_FM:
      return "a deepfm";
    default:
      return "a network";
  }
}

// Whether there are contributions.
Status CheckLinear(const ModelDescription& description) {
  if (description.shape().kind() != ModelShape::LINEAR) {
    return absl::FailedPreconditionError(
        absl::StrCat("the model is ", NameOf(description.shape().kind()),
                     ", whose score is no sum of parts of the columns: there are contributions of "
                     "linear models only"));
  }
  if (description.has_target() && !(description.target().count() > 0)) {
    return absl::FailedPreconditionError(
        "the model has not learnt from any row, so no column contributes to its estimates");
  }
  return absl::OkStatus();
}

// As the answer has it: a single column without the quotes of the notation.
std::string NameOfTerm(const std::string& term) {
  const std::vector<std::string> columns = ColumnsOfTerm(term);
  return columns.size() == 1 ? columns[0] : term;
}

}  // namespace

Status Contributions::Use(std::shared_ptr<const ModelScorer> model) {
  MILLRACE_RETURN_IF_ERROR(CheckLinear(model->model().description));
  model_ = std::move(model);
  return absl::OkStatus();
}

StatusOr<Contributions> Contributions::Create(std::shared_ptr<const ModelScorer> model) {
  const ModelDescription& description = model->model().description;
  MILLRACE_RETURN_IF_ERROR(CheckLinear(description));
  Contributions made(std::move(model));
  MILLRACE_ASSIGN_OR_RETURN(const FeatureEncoder whole,
                            FeatureEncoder::Create(description.features()));
  made.columns_.assign(whole.required_columns().begin() + 1, whole.required_columns().end());
  MILLRACE_RETURN_IF_ERROR(made.AddNumeric());
  MILLRACE_RETURN_IF_ERROR(made.AddCategories());
  MILLRACE_RETURN_IF_ERROR(made.AddTexts());
  MILLRACE_RETURN_IF_ERROR(made.AddIds());
  for (const std::string& name : made.names_) made.json_names_.push_back(Json(name));
  for (const std::string& name : description.features().classes()) {
    made.json_classes_.push_back(Json(name));
  }
  return made;
}

// All but the columns of features.
FeatureSpec Contributions::EmptySpec() const {
  FeatureSpec spec = model_->model().description.features();
  spec.clear_numeric();
  spec.clear_booleans();
  spec.clear_bins();
  spec.clear_bin_edges();
  spec.clear_categorical();
  spec.clear_text();
  spec.clear_ids();
  return spec;
}

// Those of the columns that stand for their bins. One of truth values must be numeric, too.
void Contributions::AddBins(const std::vector<std::string>& columns, FeatureSpec& spec) const {
  const FeatureSpec& whole = model_->model().description.features();
  const std::vector<BinnedColumn> binned = BinnedColumns(whole).value();
  for (size_t i = 0; i < binned.size(); ++i) {
    if (std::ranges::find(columns, binned[i].column) == columns.end()) continue;
    spec.add_bins(absl::StrCat(TermOfColumn(binned[i].column), ":", binned[i].bins));
    *spec.add_bin_edges() = whole.bin_edges(static_cast<int>(i));
    if (std::ranges::find(whole.booleans(), binned[i].column) == whole.booleans().end()) continue;
    spec.add_numeric(binned[i].column);
    spec.add_booleans(binned[i].column);
  }
}

Status Contributions::AddPart(const FeatureSpec& spec, const std::string& name, Part** added) {
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder encoder, FeatureEncoder::Create(spec));
  const auto found = std::ranges::find(names_, name);
  const auto position = static_cast<size_t>(found - names_.begin());
  if (found == names_.end()) names_.push_back(name);
  std::vector<size_t> cells;
  for (size_t i = 1; i < encoder.required_columns().size(); ++i) {
    const auto column = std::ranges::find(columns_, encoder.required_columns()[i]);
    MILLRACE_CHECK(column != columns_.end());
    cells.push_back(static_cast<size_t>(column - columns_.begin()));
  }
  parts_.push_back({.name = position,
                    .encoder = std::move(encoder),
                    .cells = std::move(cells),
                    .numeric = std::nullopt});
  *added = &parts_.back();
  return absl::OkStatus();
}

Status Contributions::AddNumeric() {
  const FeatureSpec& whole = model_->model().description.features();
  for (int i = 0; i < whole.numeric_size(); ++i) {
    FeatureSpec spec = EmptySpec();
    spec.add_numeric(whole.numeric(i));
    if (std::ranges::find(whole.booleans(), whole.numeric(i)) != whole.booleans().end()) {
      spec.add_booleans(whole.numeric(i));
    }
    Part* part = nullptr;
    MILLRACE_RETURN_IF_ERROR(AddPart(spec, whole.numeric(i), &part));
    part->numeric = static_cast<size_t>(i);
    if (whole.missing() != FeatureSpec::MEAN_AND_INDICATOR) continue;
    part->own_first = 1;
    part->first = static_cast<uint32_t>(whole.numeric_size() + i);
  }
  return absl::OkStatus();
}

Status Contributions::AddCategories() {
  const FeatureSpec& whole = model_->model().description.features();
  const bool has_indicators = whole.missing() == FeatureSpec::MEAN_AND_INDICATOR;
  const auto categories_begin = [has_indicators](size_t numeric) {
    return static_cast<uint32_t>(has_indicators ? 2 * numeric : numeric);
  };
  const auto first = categories_begin(static_cast<size_t>(whole.numeric_size()));
  const auto add = [&](const FeatureSpec& spec, const std::string& name, double sign) -> Status {
    Part* part = nullptr;
    MILLRACE_RETURN_IF_ERROR(AddPart(spec, name, &part));
    part->own_first = categories_begin(part->encoder.numeric_count());
    part->first = first;
    part->sign = sign;
    return absl::OkStatus();
  };
  for (const std::string& term : whole.categorical()) {
    FeatureSpec spec = EmptySpec();
    AddBins(ColumnsOfTerm(term), spec);
    // Bins are categories of their own, too, which the encoder of the term has beside it.
    if (!spec.bins().empty()) MILLRACE_RETURN_IF_ERROR(add(spec, NameOfTerm(term), -1));
    spec.add_categorical(term);
    MILLRACE_RETURN_IF_ERROR(add(spec, NameOfTerm(term), 1));
  }
  const std::vector<BinnedColumn> binned = BinnedColumns(whole).value();
  for (const BinnedColumn& each : binned) {
    FeatureSpec spec = EmptySpec();
    AddBins({each.column}, spec);
    MILLRACE_RETURN_IF_ERROR(add(spec, each.column, 1));
  }
  return absl::OkStatus();
}

Status Contributions::AddTexts() {
  const FeatureSpec& whole = model_->model().description.features();
  const auto all = static_cast<uint32_t>(model_->model().description.shape().features());
  const auto texts = static_cast<uint32_t>(whole.text_size());
  for (uint32_t i = 0; i < texts; ++i) {
    FeatureSpec spec = EmptySpec();
    spec.add_text(whole.text(static_cast<int>(i)));
    Part* part = nullptr;
    MILLRACE_RETURN_IF_ERROR(AddPart(spec, spec.text(0), &part));
    part->own_first = 0;
    part->first = all - (texts - i) * whole.text_buckets();  // they are the last features
  }
  return absl::OkStatus();
}

Status Contributions::AddIds() {
  for (const std::string& term : model_->model().description.features().ids()) {
    FeatureSpec spec = EmptySpec();
    AddBins(ColumnsOfTerm(term), spec);
    spec.add_ids(term);
    Part* part = nullptr;
    MILLRACE_RETURN_IF_ERROR(AddPart(spec, NameOfTerm(term), &part));
    part->has_ids = true;
  }
  return absl::OkStatus();
}

void Contributions::AddWeights(std::span<const float> weights, double value,
                               std::span<double> sums) const {
  if (model_->model().description.shape().mixed()) {
    constexpr auto kLargest = static_cast<double>(OnlineRace::kLargestFeature);
    value = std::clamp(value, -kLargest, kLargest);
  }
  for (size_t k = 0; k < sums.size(); ++k) sums[k] += value * static_cast<double>(weights[k]);
}

void Contributions::AddFeature(uint64_t feature, double value, std::span<double> sums) const {
  const ExportedModel& model = model_->model();
  const ModelShape& shape = model.description.shape();
  if (shape.wide() && feature >= shape.numeric()) {
    const EmbeddingId id = feature;
    AddWeights(EmbeddingRowsOf(model, {&id, 1}), value, sums);
    return;
  }
  AddWeights(std::span(model.weights).subspan(feature * sums.size(), sums.size()), value, sums);
}

void Contributions::AddRow(const Part& part, const Row& row, std::span<double> sums) const {
  if (part.numeric) {
    const float scaled = model_->Scale(*part.numeric, row.numeric[0]);
    AddFeature(*part.numeric, part.sign * static_cast<double>(scaled), sums);
  }
  for (size_t i = 0; part.own_first && i < row.index.size(); ++i) {
    if (row.index[i] < *part.own_first) continue;
    AddFeature(row.index[i] - *part.own_first + part.first,
               part.sign * static_cast<double>(row.value[i]), sums);
  }
  if (!part.has_ids) return;
  for (const EmbeddingId id : row.ids)
    AddWeights(EmbeddingRowsOf(model_->model(), {&id, 1}), 1, sums);
}

std::span<double> Contributions::SumsOf(size_t name) {
  const size_t width = model_->score_count();
  return std::span(sums_).subspan(name * width, width);
}

// Into sums_.
Status Contributions::Compute(std::span<const std::string_view> cells) {
  MILLRACE_CHECK(cells.size() == columns_.size());
  const size_t width = model_->score_count();
  sums_.assign((names_.size() + 1) * width, 0);
  std::vector<std::string_view> own;
  for (Part& part : parts_) {
    own.clear();
    for (const size_t cell : part.cells) own.push_back(cells[cell]);
    MILLRACE_RETURN_IF_ERROR(part.encoder.EncodeFeatures(own, &row_));
    AddRow(part, row_, SumsOf(part.name));
  }
  AddWeights(std::span(model_->model().weights).last(width), 1, SumsOf(names_.size()));
  return absl::OkStatus();
}

// One number, or one of each class; the first class of two has the odds of 1. `name`: of a part, or
// as many as there are for the offset.
std::vector<double> Contributions::NumbersOf(size_t name) {
  const std::span<double> sums = SumsOf(name);
  if (sums.size() == 2) return {sums[1] - sums[0]};
  if (sums.size() > 2) return {sums.begin(), sums.end()};
  const ModelDescription::Target& target = model_->model().description.target();
  return {(name == names_.size() ? target.mean() : 0) + target.unit() * sums[0]};
}

void Contributions::AppendNumbers(size_t name, std::string* out) {
  const std::vector<double> numbers = NumbersOf(name);
  if (numbers.size() == 1) {
    *out += Json(numbers[0]);
    return;
  }
  for (size_t k = 0; k < numbers.size(); ++k) {
    absl::StrAppend(out, k == 0 ? "{" : ",", json_classes_[k], ":", Json(numbers[k]));
  }
  *out += '}';
}

Status Contributions::AppendJson(std::span<const std::string_view> cells, std::string* out) {
  MILLRACE_RETURN_IF_ERROR(Compute(cells));
  *out += '{';
  if (model_->score_count() == 2) absl::StrAppend(out, "\"of\":", json_classes_[1], ",");
  *out += "\"offset\":";
  AppendNumbers(names_.size(), out);
  *out += ",\"parts\":{";
  for (size_t i = 0; i < names_.size(); ++i) {
    absl::StrAppend(out, i == 0 ? "" : ",", json_names_[i], ":");
    AppendNumbers(i, out);
  }
  *out += "}}";
  return absl::OkStatus();
}

std::vector<std::string> Contributions::columns() const {
  const FeatureSpec& features = model_->model().description.features();
  std::vector<std::string> columns;
  const auto add = [&](const std::string& name) {
    if (features.classes_size() <= 2) {
      columns.push_back(name);
      return;
    }
    for (const std::string& of : features.classes()) columns.push_back(absl::StrCat(name, ":", of));
  };
  add("offset_" + features.label());
  for (const std::string& name : names_) add("contribution_" + name);
  return columns;
}

Status Contributions::AppendCells(std::span<const std::string_view> cells, char delimiter,
                                  std::string* out) {
  MILLRACE_RETURN_IF_ERROR(Compute(cells));
  const auto append = [&](size_t name) {
    for (const double number : NumbersOf(name)) {
      *out += delimiter;
      *out += std::isfinite(number) ? Json(number) : "nan";
    }
  };
  append(names_.size());
  for (size_t i = 0; i < names_.size(); ++i) append(i);
  return absl::OkStatus();
}

}  // namespace millrace
