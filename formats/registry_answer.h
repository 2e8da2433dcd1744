// What a schema registry answers to GET /schemas/ids/{id}.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "formats/avro_schema.h"

namespace millrace {

// The schema in the answer of the status 200. InvalidArgument, with the reason: it is no such
// answer, the schema is of another type than Avro, refers to other schemas, or is not usable
// (AvroSchema).
StatusOr<AvroSchema> ParseRegistryAnswer(std::string_view body);

// The code in the body of an error (40403: there is no such schema); 0 if it has none.
int64_t RegistryErrorCode(std::string_view body);

}  // namespace millrace
