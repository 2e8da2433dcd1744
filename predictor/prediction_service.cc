#include "predictor/prediction_service.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "exports/json_forms.h"
#include "features/number.h"
#include "formats/json_fields.h"
#include "predictor/body_lines.h"
#include "predictor/contributions.h"
#include "predictor/model_age.h"
#include "predictor/prediction_text.h"
#include "predictor/row_scorer.h"

namespace millrace {
namespace {

std::string Json(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string ErrorJson(std::string_view message) { return Json({{"error", message}}); }

HttpResponse Error(int status, std::string_view message) {
  return {.status = status, .body = ErrorJson(message) + "\n"};
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  absl::AsciiStrToLower(&lower);
  return lower;
}

bool IsNdjson(std::string_view content_type) {
  const std::string type = Lower(TrimSpaces(content_type.substr(0, content_type.find(';'))));
  return type == "application/x-ndjson" || type == "application/ndjson" ||
         type == "application/jsonl" || type == "application/x-jsonlines";
}

constexpr std::string_view kContributions = "contributions";

bool IsYes(std::string_view value) { return value == "1" || value == "true"; }

// (Both were checked: WhatIsWrongWithQuery.)
bool WantsContributions(const HttpRequest& request) {
  return !request.query.empty() && IsYes(request.query.front().value);
}

// Empty: nothing is.
std::string WhatIsWrongWithQuery(const HttpRequest& request) {
  if (request.query.empty()) return "";
  const auto& [name, value] = request.query.front();
  const std::string path(request.path);
  if (request.path != "/predict") {
    return absl::StrCat(path, " has no query parameters; leave '", Printable(name), "' out");
  }
  if (request.query.size() > 1 || name != kContributions) {
    const auto other = std::ranges::find_if(
        request.query, [](const HttpParameter& each) { return each.name != kContributions; });
    if (other == request.query.end()) return "contributions is given twice; give it once";
    return absl::StrCat("there is no query parameter '", Printable(other->name), "'; ", path,
                        " has one: contributions=1 (or 0)");
  }
  if (IsYes(value) || value == "0" || value == "false") return "";
  return absl::StrCat("contributions is '", Printable(value),
                      "'; give contributions=1 (or true), or 0 (or false)");
}

// Takes as long whatever the texts are, if they are of the same length.
bool IsSame(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

// All that one request needs, kept for the next one: a thread takes it for as long as it answers.
class PredictionService::Session {
 public:
  static StatusOr<std::unique_ptr<Session>> Create(std::shared_ptr<const ModelScorer> model) {
    const FeatureSpec spec = model->model().description.features();
    MILLRACE_ASSIGN_OR_RETURN(RowScorer rows, RowScorer::Create(std::move(model)));
    return std::unique_ptr<Session>(new Session(spec, std::move(rows)));
  }

  // Predicts by this model from here on. False: it has other features.
  bool Use(const std::shared_ptr<const ModelScorer>& model) {
    if (!rows_.Fits(*model)) return false;
    rows_.Clear();
    rows_.Use(model);
    return true;
  }
  void Release() {
    rows_.Release();
    if (contributions_) contributions_->Release();
  }

  // Whether the requests that follow get contributions. An error of Contributions: they cannot.
  Status SetContributions(bool wanted) {
    wants_contributions_ = wanted;
    if (!wanted) return absl::OkStatus();
    if (contributions_) return contributions_->Use(rows_.shared_model());
    MILLRACE_ASSIGN_OR_RETURN(Contributions made, Contributions::Create(rows_.shared_model()));
    contributions_.emplace(std::move(made));
    return absl::OkStatus();
  }

  std::shared_ptr<const ModelScorer> model() const { return rows_.shared_model(); }
  // The rows of the next request go there, too, as they are answered; null: nowhere.
  void NoteIn(Challenger::Answered* answered) { answered_ = answered; }

  // An object or an array.
  Status PredictJson(std::string_view text, std::string* out) {
    Begin(",", out);
    MILLRACE_ASSIGN_OR_RETURN(const JsonFields::Shape shape, Read(text, /*may_flush=*/true));
    Flush();
    if (answered_ != nullptr) answered_->AddText(text);
    if (shape == JsonFields::Shape::kArray) *out = absl::StrCat("[", *out, "]");
    *out += '\n';
    return absl::OkStatus();
  }

  Status PredictLines(std::string_view text, std::string* out) {
    Begin("\n", out);
    size_t bad_lines = 0;
    BodyLines lines(text);
    while (const std::optional<std::string_view> row = lines.Next()) {
      const size_t before = rows_.rows();
      const StatusOr<JsonFields::Shape> shape = ReadLine(*row);
      if (shape.ok()) {
        if (answered_ != nullptr) answered_->AddText(*row);
        if (rows_.rows() >= RowScorer::kRowsAtOnce) Flush();
        continue;
      }
      // What is wrong may stand behind an object that was taken.
      rows_.Shrink(before);
      if (wants_contributions_) parts_.resize(before);
      const std::string error =
          absl::StrCat("line ", lines.number(), ": ", shape.status().message());
      if (++bad_lines > kMostBadLines) {
        return absl::InvalidArgumentError(
            absl::StrCat("more than ", kMostBadLines, " lines cannot be used; ", error));
      }
      Flush();
      Separate();
      *out += ErrorJson(error);
    }
    Flush();
    if (!out->empty()) *out += '\n';
    return absl::OkStatus();
  }

 private:
  Session(const FeatureSpec& spec, RowScorer rows)
      : rows_(std::move(rows)),
        fields_({rows_.columns().begin(), rows_.columns().end()}, spec.decimal_comma() ? ',' : '.'),
        text_(spec) {}

  void Begin(std::string_view separator, std::string* out) {
    rows_.Clear();
    parts_.clear();
    separator_ = separator;
    out_ = out;
  }

  StatusOr<JsonFields::Shape> Read(std::string_view text, bool may_flush) {
    return fields_.ForEach(text, [this, may_flush](std::span<const std::string_view> cells) {
      MILLRACE_RETURN_IF_ERROR(rows_.Add(cells));
      if (wants_contributions_) {
        MILLRACE_RETURN_IF_ERROR(contributions_->AppendJson(cells, &parts_.emplace_back()));
      }
      if (may_flush && rows_.rows() == RowScorer::kRowsAtOnce) Flush();
      return absl::OkStatus();
    });
  }

  StatusOr<JsonFields::Shape> ReadLine(std::string_view line) {
    if (line.find_first_not_of(" \t\r") == line.find('[')) {
      return absl::InvalidArgumentError("a line is one object, and no array");
    }
    return Read(line, /*may_flush=*/false);
  }

  void Separate() {
    if (!out_->empty()) *out_ += separator_;
  }

  void Flush() {
    const std::span<const float> scores = rows_.Score();
    const size_t width = rows_.score_count();
    if (answered_ != nullptr) answered_->AddScores(scores);
    for (size_t i = 0; i < rows_.rows(); ++i) {
      Separate();
      text_.AppendJson(scores.subspan(i * width, width), out_);
      if (!wants_contributions_) continue;
      out_->back() = ',';  // its brace
      absl::StrAppend(out_, "\"contributions\":", parts_[i], "}");
    }
    rows_.Clear();
    parts_.clear();
  }

  RowScorer rows_;
  JsonFields fields_;
  PredictionText text_;
  std::optional<Contributions> contributions_;
  bool wants_contributions_ = false;  // by the request that is answered, as are the next ..
  std::vector<std::string> parts_;    // of each row in rows_, if they are wanted
  Challenger::Answered* answered_ = nullptr;
  std::string_view separator_;
  std::string* out_ = nullptr;
};

PredictionService::PredictionService(const ModelSource& models, Options options)
    : models_(models), options_(std::move(options)) {}

PredictionService::~PredictionService() = default;

bool PredictionService::MayAsk(const HttpRequest& request) const {
  if (options_.token.empty()) return true;
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view shown = request.authorization;
  return Lower(shown.substr(0, kScheme.size())) == kScheme &&
         IsSame(TrimSpaces(shown.substr(kScheme.size())), options_.token);
}

bool PredictionService::Has(std::string_view path) const {
  if (path == "/labels" || path == "/challenger") return options_.challenger != nullptr;
  return path == "/predict" || path == "/model" || path == "/healthz" || path == "/readyz";
}

std::string PredictionService::Paths() const {
  const bool has_challenger = options_.challenger != nullptr;
  return absl::StrCat("there is POST /predict", has_challenger ? " and /labels" : "",
                      ", and GET /model, ", has_challenger ? "/challenger, " : "",
                      "/healthz and /readyz");
}

std::optional<HttpResponse> PredictionService::Refuse(const HttpRequest& request) const {
  if (!Has(request.path)) return Error(404, Paths());
  const bool is_health = request.path == "/healthz" || request.path == "/readyz";
  if (!is_health && !MayAsk(request)) {
    return Error(401, "give the token: Authorization: Bearer TOKEN");
  }
  const bool predicts = request.path == "/predict";
  const bool is_sent = predicts || request.path == "/labels";
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (is_sent ? request.method == "POST" : reads) {
    const std::string wrong = is_health ? "" : WhatIsWrongWithQuery(request);
    return wrong.empty() ? std::nullopt : std::optional(Error(400, wrong));
  }
  HttpResponse response = Error(405, predicts  ? "send rows by POST"
                                     : is_sent ? "send labels by POST"
                                               : "ask for it by GET");
  response.allow = is_sent ? "POST" : "GET, HEAD";
  return response;
}

HttpResponse PredictionService::Answer(const HttpRequest& request) const {
  if (std::optional<HttpResponse> refused = Refuse(request)) return *std::move(refused);
  if (request.path == "/predict") return Predict(request);
  if (request.path == "/labels") return TakeLabels(request);
  if (request.path == "/challenger") return {.body = options_.challenger->ToJson() + "\n"};
  if (request.path == "/model") return DescribeModel();
  if (request.path == "/readyz") return IsReady();
  return {.body = "{\"status\":\"ok\"}\n"};
}

HttpResponse PredictionService::TakeLabels(const HttpRequest& request) const {
  StatusOr<std::string> counted =
      options_.challenger->TakeLabels(request.body, IsNdjson(request.content_type));
  if (counted.ok()) return {.body = *counted + "\n"};
  return Error(absl::IsInvalidArgument(counted.status()) ? 400 : 503, TextOf(counted.status()));
}

// (One may have come meanwhile.)
std::string PredictionService::WhyThereIsNone() const {
  const Status why = models_.newer();
  return why.ok() ? "there is no model yet" : std::string(TextOf(why));
}

HttpResponse PredictionService::IsReady() const {
  if (models_.model() == nullptr) return Error(503, WhyThereIsNone());
  return {.body = "{\"status\":\"ok\"}\n"};
}

HttpResponse PredictionService::Predict(const HttpRequest& request) const {
  StatusOr<std::unique_ptr<Session>> session = TakeSession();
  if (!session.ok()) {
    return Error(absl::IsUnavailable(session.status()) ? 503 : 500, TextOf(session.status()));
  }
  HttpResponse response;
  const bool is_lines = IsNdjson(request.content_type);
  if (is_lines) response.content_type = "application/x-ndjson";
  std::optional<Challenger::Answered> answered;
  if (options_.challenger != nullptr) answered.emplace((*session)->model());
  (*session)->NoteIn(answered ? &*answered : nullptr);
  Status status = (*session)->SetContributions(WantsContributions(request));
  if (status.ok()) {
    status = is_lines ? (*session)->PredictLines(request.body, &response.body)
                      : (*session)->PredictJson(request.body, &response.body);
  }
  if (!status.ok()) response = Error(400, TextOf(status));
  (*session)->NoteIn(nullptr);
  GiveBack(*std::move(session));
  if (status.ok() && answered) options_.challenger->Compare(*answered);
  return response;
}

HttpResponse PredictionService::DescribeModel() const {
  const std::shared_ptr<const ModelScorer> model = models_.model();
  const Status newer = models_.newer();
  if (model == nullptr) return Error(503, WhyThereIsNone());
  const ModelDescription& description = model->model().description;
  const StatusOr<std::string> text = JsonOfModel(description);
  if (!text.ok()) return Error(500, "the model's description has no form in JSON");
  HttpResponse response;
  response.body = absl::StrCat("{\"age_seconds\":", AgeSeconds(description),
                               ",\"newer_model_error\":", newer.ok() ? "null" : Json(TextOf(newer)),
                               models_.MoreJson(), ",\"model\":", *text, "}\n");
  return response;
}

StatusOr<std::unique_ptr<PredictionService::Session>> PredictionService::TakeSession() const {
  std::shared_ptr<const ModelScorer> model = models_.model();
  if (model == nullptr) return absl::UnavailableError(WhyThereIsNone());
  {
    const std::lock_guard lock(mutex_);
    while (!idle_.empty()) {
      std::unique_ptr<Session> session = std::move(idle_.back());
      idle_.pop_back();
      // Those of other features are of no more use.
      if (session->Use(model)) return session;
    }
  }
  return Session::Create(std::move(model));
}

void PredictionService::GiveBack(std::unique_ptr<Session> session) const {
  session->Release();
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(session));
}

}  // namespace millrace
