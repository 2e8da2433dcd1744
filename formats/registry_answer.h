// What a schema registry answers to GET /schemas/ids/{id} and to
// GET /subjects/{subject}/versions/{version}.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace millrace {

// Names another schema in the same registry, whose types are used.
struct SchemaReference {
  std::string subject;
  int32_t version = 0;  // from 1
  auto operator<=>(const SchemaReference&) const = default;
};

struct RegisteredSchema {
  std::string json;  // an Avro schema, not parsed
  std::vector<SchemaReference> references;
};

// A schema has no more references of its own, and no longer names of subjects (bytes).
inline constexpr size_t kMostReferences = 1000;
inline constexpr size_t kMostSubjectBytes = 1000;

// The schema in the answer of the status 200. InvalidArgument, with the reason: the schema is of
// another type than Avro, or has references beyond the limits. FailedPrecondition: the answer is
// none of a registry (the login page of a proxy, say), so nothing is known of the schema.
StatusOr<RegisteredSchema> ParseRegistryAnswer(std::string_view body);

// The code in the body of an error (40403: there is no such schema); 0 if it has none.
int64_t RegistryErrorCode(std::string_view body);

}  // namespace millrace
