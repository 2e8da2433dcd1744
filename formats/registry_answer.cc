#include "formats/registry_answer.h"

#include <simdjson.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/printable.h"

namespace millrace {

StatusOr<AvroSchema> ParseRegistryAnswer(std::string_view body) {
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(body);
  simdjson::dom::element answer;
  std::string_view schema;
  if (parser.parse(padded).get(answer) || answer["schema"].get(schema)) {
    return absl::FailedPreconditionError(
        "the schema registry's answer is no JSON object with a schema: something else answers "
        "there, or in between; check --schema-registry");
  }
  std::string_view type = "AVRO";
  const bool has_type = !answer["schemaType"].get(type);
  if (has_type && type != "AVRO") {
    return absl::InvalidArgumentError(
        absl::StrCat("it is of the type ", Printable(type, 30),
                     ", not AVRO; records of the type JSON are read by --format json"));
  }
  simdjson::dom::array references;
  if (!answer["references"].get(references) && references.size() > 0) {
    return absl::InvalidArgumentError(
        "it refers to other schemas, which are not read: register it with all types in it");
  }
  return AvroSchema::Parse(schema);
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
