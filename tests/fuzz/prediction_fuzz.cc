// Requests of any bytes to Predictor: each is answered by a prediction or by a reason, as JSON.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.h"
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
  static const std::unique_ptr<ModelFolder> models = [] {
    const ExportedModel model = RandomModel(DescriptionFor(ModelShape::NETWORK, 3, true));
    MILLRACE_CHECK(millrace::Write(folder.path(), model).ok());
    return ModelFolder::Open(folder.path()).value();
  }();
  static const PredictionService service(*models, {});
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
  Check(service.Answer(request));
}

}  // namespace millrace::fuzz
