// What a schema registry answers to GET /schemas/ids/{id}.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "formats/avro_schema.h"

namespace millrace {

// The schema in the answer of the status 200. InvalidArgument, with the reason: the schema is of
// another type than Avro, refers to other schemas, or is not usable (AvroSchema).
// FailedPrecondition: the answer is none of a registry (the login page of a proxy, say), so nothing
// is known of the schema.
StatusOr<AvroSchema> ParseRegistryAnswer(std::string_view body);

// The code in the body of an error (40403: there is no such schema); 0 if it has none.
int64_t RegistryErrorCode(std::string_view body);

}  // namespace millrace
