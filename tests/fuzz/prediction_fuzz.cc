// Requests of any bytes to Predictor: each is answered by a prediction or by a reason, as JSON,
// whether they hold rows or labels, and with a challenger as without.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.h"
#include "predictor/challenger.h"
#include "predictor/model_folder.h"
#include "predictor/prediction_service.h"
#include "tests/exports/small_models.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/scratch_folder.h"
#include "tests/fuzz/target.h"

namespace millrace::fuzz {
namespace {

constexpr std::string_view kBodies[] = {
    R"({"a": 1.5, "b": null, "c": "x", "u": "7", "v": "8"})",
    R"([{"a": 1, "b": 2, "c": "", "u": 1, "v": true}, {"c": "y\n", "v": {}, "b": -1e9, "u": [], "a": "x"}])",
    "{\"a\": 1, \"b\": \"\", \"c\": 3, \"u\": 4, \"v\": 5}\r\n\n{\"a\": 1}\n[]\n",
    R"({"id": 7, "y": "class 1", "a": 1.5, "b": null, "c": "x", "u": "7", "v": "8"})",
};

void Check(const HttpResponse& response) {
  MILLRACE_CHECK(response.status == 200 || response.status == 400);
  std::string_view rest = response.body;
  const bool is_lines = response.content_type != "application/json";
  MILLRACE_CHECK(is_lines || !rest.empty());
  while (!rest.empty()) {
    const size_t end = is_lines ? rest.find('\n') : rest.size() - 1;
    MILLRACE_CHECK(end < rest.size() && rest[end] == '\n');
    const nlohmann::json json = nlohmann::json::parse(rest.substr(0, end));
    MILLRACE_CHECK(response.status == 200 || !json["error"].get<std::string>().empty());
    rest.remove_prefix(end + 1);
  }
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  static const ScratchFolder folder;
  const auto open = [](const char* name, ModelShape::Kind kind, bool ids) {
    const std::string path = folder.Path(name);
    MILLRACE_CHECK(millrace::Write(path, RandomModel(DescriptionFor(kind, 3, ids))).ok());
    return ModelFolder::Open(path).value();
  };
  static const std::unique_ptr<ModelFolder> models = open("model", ModelShape::NETWORK, true);
  static const std::unique_ptr<ModelFolder> others = open("other", ModelShape::LINEAR, false);
  static const std::unique_ptr<Challenger> challenger =
      Challenger::Create(*models, *others,
                         {.id_column = "id",
                          .most_waiting_bytes = 10'000,
                          .figures = [](const auto&, const auto&) { return "{}"; }})
          .value();
  static const PredictionService alone(*models, {});
  static const PredictionService service(*models, {.challenger = challenger.get()});
  HttpRequest request{.method = "POST", .path = "/predict"};
  if (bytes.Chance(128)) request.content_type = "application/x-ndjson";
  std::string body;
  if (bytes.Chance(64)) {
    body = bytes.Rest();
  } else {
    body = kBodies[bytes.Below(std::size(kBodies))];
    Mutate(body, bytes);
  }
  request.body = body;
  const HttpResponse answer = service.Answer(request);
  Check(answer);
  MILLRACE_CHECK(answer.body == alone.Answer(request).body);
  request.path = "/labels";
  Check(service.Answer(request));
  Check(service.Answer({.method = "GET", .path = "/challenger"}));
}

}  // namespace millrace::fuzz
