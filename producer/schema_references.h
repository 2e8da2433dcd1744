// Schemas of a registry that use the types of others there. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "formats/avro_schema.h"
#include "formats/registry_answer.h"

namespace millrace {

// The registry's answer to a question for this version of a subject. NotFound: there is none;
// Unavailable: it is away. All errors name the registry.
using FetchReference = std::function<StatusOr<std::string>(const SchemaReference& reference)>;

// The schema in the registry's answer, with the types of those that it refers to, and of those that
// these refer to. Each is asked for once. Errors are those of ParseRegistryAnswer and of `fetch`;
// InvalidArgument, too: it is not usable (AvroSchema), refers to itself, or is beyond the limits.
StatusOr<AvroSchema> ResolveSchema(std::string_view answer, const FetchReference& fetch);

inline constexpr size_t kMostReferenceDepth = 30;    // references of references
inline constexpr size_t kMostReferredSchemas = 200;  // of one schema, all together
inline constexpr size_t kMostReferredBytes = 4 * kMostSchemaBytes;

}  // namespace millrace
