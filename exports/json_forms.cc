#include "exports/json_forms.h"

#include <google/protobuf/util/json_util.h>

namespace millrace {
namespace {

StatusOr<std::string> ToJson(const google::protobuf::Message& message, bool in_lines) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = in_lines;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return text;
  return absl::InternalError("a " + message.GetTypeName() + " has no form in JSON");
}

}  // namespace

StatusOr<std::string> JsonLinesOf(const google::protobuf::Message& message) {
  return ToJson(message, true);
}

StatusOr<std::string> JsonOfModel(ModelDescription description) {
  description.clear_files();
  description.clear_crc32c();
  return ToJson(description, false);
}

}  // namespace millrace
