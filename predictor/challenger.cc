#include "predictor/challenger.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "features/feature_encoder.h"
#include "features/number.h"
#include "features/quoted_value.h"
#include "formats/json_fields.h"
#include "models/row.h"
#include "predictor/body_lines.h"
#include "predictor/challenger_scorer.h"

namespace millrace {
namespace {

// All that a label depends on. An encoder needs a feature, too: this one has an empty cell.
FeatureSpec LabelSpec(const ModelScorer& model) {
  const FeatureSpec& features = model.model().description.features();
  FeatureSpec spec;
  spec.set_label(features.label());
  spec.set_regression(features.regression());
  spec.set_decimal_comma(features.decimal_comma());
  *spec.mutable_classes() = features.classes();
  spec.add_categorical(features.label() + "_");
  spec.set_categorical_buckets(1);
  return spec;
}

// Two of one order of classes have the same scores.
bool IsSameLabel(const FeatureSpec& a, const FeatureSpec& b) {
  return a.label() == b.label() && a.regression() == b.regression() &&
         std::ranges::equal(a.classes(), b.classes());
}

char DecimalSign(const FeatureSpec& spec) { return spec.decimal_comma() ? ',' : '.'; }

// Of the lines that are not blank, with the number of the line before an error.
Status ForEachLine(std::string_view body, const std::function<Status(std::string_view)>& read) {
  BodyLines lines(body);
  while (const std::optional<std::string_view> line = lines.Next()) {
    const Status done = read(*line);
    if (!done.ok()) {
      return Status(done.code(), absl::StrCat("line ", lines.number(), ": ", done.message()));
    }
  }
  return absl::OkStatus();
}

// Labels of a request, which count when all of it has been read.
class ReceivedLabels {
 public:
  Status Add(std::span<const std::string_view> label_and_id, FeatureEncoder& encoder) {
    const std::string_view id = TrimSpaces(label_and_id[1]);
    if (id.empty()) return absl::InvalidArgumentError("the id is empty");
    const std::string_view cells[] = {label_and_id[0], ""};
    MILLRACE_RETURN_IF_ERROR(encoder.Encode(cells, &row_));
    ids_ += id;
    labels_.push_back({ids_.size(), row_.label, row_.target});
    return absl::OkStatus();
  }

  // Returns how many of them have counted.
  uint64_t AddTo(ComparedRows& rows, size_t classes) {
    uint64_t counted = 0;
    size_t begin = 0;
    for (const Label& label : labels_) {
      row_.label = label.of_class;
      row_.target = label.target;
      const std::string_view id = std::string_view(ids_).substr(begin, label.id_end - begin);
      counted += rows.AddLabel(id, row_, classes) ? 1 : 0;
      begin = label.id_end;
    }
    return counted;
  }
  uint64_t size() const { return labels_.size(); }

 private:
  struct Label {
    size_t id_end = 0;  // in ids_; it begins where the one before ends
    uint32_t of_class = 0;
    float target = 0;
  };

  std::string ids_;  // one after the other
  std::vector<Label> labels_;
  Row row_;  // scratch
};

std::string TextOrNull(std::string_view text) {
  if (text.empty()) return "null";
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

// What reads and scores the rows of one request, kept for the next one.
struct Challenger::Lane {
  // A row in the scorer.
  struct Pending {
    std::string id;
    size_t row = 0;  // of the request
  };

  std::string model_features;
  FeatureSpec label;
  ChallengerScorer scorer;
  JsonFields fields;  // the challenger's columns, and the id as it stands there
  std::vector<Pending> pending{};
  size_t next_row = 0;  // of the request
  uint64_t compared = 0;
  std::string reason{};  // why a row was not, the last
};

void Challenger::Answered::AddScores(std::span<const float> scores) {
  if (left_out_ > 0 || scores.size() > kMostScores - scores_.size()) {
    left_out_ += scores.size() / model_->score_count();
    return;
  }
  scores_.insert(scores_.end(), scores.begin(), scores.end());
}

Challenger::Challenger(const ModelSource& models, const ModelSource& challengers, Options options)
    : models_(models),
      challengers_(challengers),
      options_(std::move(options)),
      compared_rows_(options_.most_waiting_bytes) {}

Challenger::~Challenger() = default;

StatusOr<std::unique_ptr<Challenger>> Challenger::Create(const ModelSource& models,
                                                         const ModelSource& challengers,
                                                         Options options) {
  auto made = std::unique_ptr<Challenger>(new Challenger(models, challengers, std::move(options)));
  const std::shared_ptr<const ModelScorer> model = models.model();
  std::shared_ptr<const ModelScorer> challenger = challengers.model();
  if (model == nullptr || challenger == nullptr) return made;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Lane> lane,
                            made->MakeLane(*model, std::move(challenger)));
  made->GiveBack(std::move(lane));
  return made;
}

StatusOr<std::unique_ptr<Challenger::Lane>> Challenger::MakeLane(
    const ModelScorer& model, std::shared_ptr<const ModelScorer> challenger) const {
  const FeatureSpec theirs = challenger->model().description.features();
  MILLRACE_ASSIGN_OR_RETURN(ChallengerScorer scorer,
                            ChallengerScorer::Create(model, std::move(challenger)));
  if (options_.id_column == theirs.label()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--id-column ", options_.id_column,
                     " is the label: name the column that tells rows apart"));
  }
  std::vector<std::string> names(scorer.rows().columns().begin(), scorer.rows().columns().end());
  JsonFields fields(std::move(names), DecimalSign(theirs), JsonFields::Absent::kMarked,
                    options_.id_column);
  return std::make_unique<Lane>(Lane{.model_features = model.features_key(),
                                     .label = LabelSpec(model),
                                     .scorer = std::move(scorer),
                                     .fields = std::move(fields)});
}

StatusOr<std::unique_ptr<Challenger::Lane>> Challenger::TakeLane(const ModelScorer& model) {
  std::shared_ptr<const ModelScorer> challenger = challengers_.model();
  if (challenger == nullptr) return absl::UnavailableError("there is no challenger yet");
  {
    const std::lock_guard lock(mutex_);
    while (!idle_.empty()) {
      std::unique_ptr<Lane> lane = std::move(idle_.back());
      idle_.pop_back();
      // Those of other features are of no more use.
      if (lane->model_features != model.features_key() || !lane->scorer.rows().Fits(*challenger)) {
        continue;
      }
      lane->scorer.rows().Use(std::move(challenger));
      return lane;
    }
  }
  return MakeLane(model, std::move(challenger));
}

void Challenger::Compare(const Answered& answered) {
  StatusOr<std::unique_ptr<Lane>> lane = TakeLane(*answered.model_);
  uint64_t compared = 0;
  std::string reason(TextOf(lane.status()));
  if (lane.ok()) {
    ReadRows(answered, **lane);
    compared = (*lane)->compared;
    reason = (*lane)->reason;
    GiveBack(*std::move(lane));
  }
  if (answered.left_out_ > 0) reason = "a request had more rows than are compared";
  const uint64_t rows = answered.rows() + answered.left_out_;
  if (rows == compared) return;
  const std::lock_guard lock(mutex_);
  not_compared_ += rows - compared;
  not_compared_reason_ = std::move(reason);
}

void Challenger::GiveBack(std::unique_ptr<Lane> lane) {
  lane->scorer.rows().Release();
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(lane));
}

void Challenger::ReadRows(const Answered& answered, Lane& lane) {
  lane.compared = 0;
  const auto take = [&](std::span<const std::string_view> cells) {
    if (lane.next_row >= answered.rows()) return absl::OkStatus();
    const Status added = AddRow(cells, lane);
    if (!added.ok()) lane.reason = std::string(TextOf(added));
    ++lane.next_row;
    if (lane.scorer.rows().rows() == RowScorer::kRowsAtOnce) Flush(answered, lane);
    return absl::OkStatus();
  };
  for (size_t i = 0; i < answered.texts_.size(); ++i) {
    lane.next_row = i;  // a text of several rows is the only one
    const Status read = lane.fields.ForEach(answered.texts_[i], take).status();
    if (!read.ok()) lane.reason = std::string(TextOf(read));
  }
  Flush(answered, lane);
}

Status Challenger::AddRow(std::span<const std::string_view> cells, Lane& lane) {
  const std::string_view id = TrimSpaces(cells.back());
  if (id.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a row has no id (", QuotedValue(options_.id_column), ")"));
  }
  if (id.size() > kMostIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the id ", QuotedValue(id), " has more than ", kMostIdBytes, " bytes"));
  }
  RowScorer& rows = lane.scorer.rows();
  for (size_t i = 0; i < rows.columns().size(); ++i) {
    if (cells[i].data() != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat("a row has no ", QuotedValue(rows.columns()[i]),
                                                   ", which the challenger reads"));
  }
  MILLRACE_RETURN_IF_ERROR(rows.Add(cells.first(rows.columns().size())));
  lane.pending.push_back({std::string(id), lane.next_row});
  return absl::OkStatus();
}

void Challenger::Flush(const Answered& answered, Lane& lane) {
  const std::span<const float> scores = lane.scorer.Score();
  const size_t width = answered.model_->score_count();
  {
    const std::lock_guard lock(mutex_);
    if (!label_spec_ || !IsSameLabel(*label_spec_, lane.label)) {
      label_spec_ = lane.label;
      compared_rows_.Clear();
    }
    for (size_t i = 0; i < lane.pending.size(); ++i) {
      const Lane::Pending& row = lane.pending[i];
      compared_rows_.Keep(row.id, std::span(answered.scores_).subspan(row.row * width, width),
                          scores.subspan(i * width, width));
    }
  }
  lane.compared += lane.pending.size();
  lane.pending.clear();
  lane.scorer.rows().Clear();
}

StatusOr<FeatureSpec> Challenger::SpecOfLabels() const {
  {
    const std::lock_guard lock(mutex_);
    if (label_spec_) return *label_spec_;
  }
  const std::shared_ptr<const ModelScorer> model = models_.model();
  if (model == nullptr) return absl::UnavailableError("there is no model yet");
  return LabelSpec(*model);
}

StatusOr<std::string> Challenger::TakeLabels(std::string_view body, bool is_lines) {
  MILLRACE_ASSIGN_OR_RETURN(const FeatureSpec spec, SpecOfLabels());
  if (options_.id_column == spec.label()) {
    return absl::FailedPreconditionError("the model's label is the column of the ids now");
  }
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder encoder, FeatureEncoder::Create(spec));
  JsonFields fields({spec.label()}, DecimalSign(spec), JsonFields::Absent::kError,
                    options_.id_column);
  ReceivedLabels labels;
  const auto read = [&](std::string_view text) {
    return fields
        .ForEach(
            text,
            [&](std::span<const std::string_view> cells) { return labels.Add(cells, encoder); })
        .status();
  };
  MILLRACE_RETURN_IF_ERROR(is_lines ? ForEachLine(body, read) : read(body));
  const std::lock_guard lock(mutex_);
  // (The model may have got other classes meanwhile.)
  const bool may_count = !label_spec_ || IsSameLabel(*label_spec_, spec);
  const uint64_t counted =
      may_count ? labels.AddTo(compared_rows_, static_cast<size_t>(spec.classes_size())) : 0;
  return absl::StrCat("{\"labels\":", counted, ",\"unknown\":", labels.size() - counted, "}");
}

std::string Challenger::ToJson() const {
  const Status newer = challengers_.newer();
  EvaluationSums model;
  EvaluationSums challenger;
  FeatureSpec features;
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    model = compared_rows_.model();
    challenger = compared_rows_.challenger();
    if (label_spec_) features = *label_spec_;
    text = absl::StrCat("{\"labels\":", model.rows, ",\"waiting\":", compared_rows_.waiting(),
                        ",\"forgotten\":", compared_rows_.forgotten(),
                        ",\"unknown_labels\":", compared_rows_.unknown(),
                        ",\"not_compared\":", not_compared_,
                        ",\"not_compared_reason\":", TextOrNull(not_compared_reason_));
  }
  absl::StrAppend(&text, ",\"newer_challenger_error\":", TextOrNull(TextOf(newer)),
                  ",\"figures\":");
  if (model.rows == 0) return text + "null}";
  absl::StrAppend(&text, "{\"model\":", options_.figures(model, features),
                  ",\"challenger\":", options_.figures(challenger, features), "}}");
  return text;
}

}  // namespace millrace
