#include "formats/registry_answer.h"

#include <simdjson.h>

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/printable.h"

namespace millrace {
namespace {

Status NoAnswer(const char* what) {
  return absl::FailedPreconditionError(
      absl::StrCat("the schema registry's answer is no JSON object with ", what,
                   ": something else answers there, or in between; check --schema-registry"));
}

StatusOr<std::vector<SchemaReference>> ParseReferences(const simdjson::dom::element& answer) {
  std::vector<SchemaReference> references;
  simdjson::dom::array all;
  if (answer["references"].get(all)) return references;  // none, or null
  for (const simdjson::dom::element each : all) {
    std::string_view subject;
    int64_t version = 0;
    if (each["subject"].get(subject) || each["version"].get(version) || subject.empty()) {
      return NoAnswer("usable references");
    }
    if (references.size() == kMostReferences || subject.size() > kMostSubjectBytes) {
      return absl::InvalidArgumentError(absl::StrCat("it refers to more than ", kMostReferences,
                                                     " schemas, or to a subject of more than ",
                                                     kMostSubjectBytes, " bytes"));
    }
    if (version < 1 || version > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("it refers to the version ", version, " of a subject; versions begin at 1"));
    }
    references.push_back({std::string(subject), static_cast<int32_t>(version)});
  }
  return references;
}

}  // namespace

StatusOr<RegisteredSchema> ParseRegistryAnswer(std::string_view body) {
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(body);
  simdjson::dom::element answer;
  std::string_view schema;
  if (parser.parse(padded).get(answer) || answer["schema"].get(schema)) {
    return NoAnswer("a schema");
  }
  std::string_view type = "AVRO";
  const bool has_type = !answer["schemaType"].get(type);
  if (has_type && type != "AVRO") {
    return absl::InvalidArgumentError(
        absl::StrCat("it is of the type ", Printable(type, 30),
                     ", not AVRO; records of the type JSON are read by --format json"));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::vector<SchemaReference> references, ParseReferences(answer));
  return RegisteredSchema{std::string(schema), std::move(references)};
}

int64_t RegistryErrorCode(std::string_view body) {
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(body);
  simdjson::dom::element answer;
  int64_t code = 0;
  if (parser.parse(padded).get(answer) || answer["error_code"].get(code)) return 0;
  return code;
}

}  // namespace millrace
