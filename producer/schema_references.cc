#include "producer/schema_references.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/printable.h"

namespace millrace {
namespace {

class ReferenceResolver {
 public:
  explicit ReferenceResolver(const FetchReference& fetch) : fetch_(fetch) {}

  // Those of a schema, each behind those that it refers to itself.
  Status Add(const std::vector<SchemaReference>& references, size_t depth) {
    for (const SchemaReference& reference : references) {
      MILLRACE_RETURN_IF_ERROR(AddOne(reference, depth));
    }
    return absl::OkStatus();
  }

  const std::vector<AvroSchema::Referenced>& schemas() const { return schemas_; }

 private:
  static std::string Where(const SchemaReference& reference) {
    return absl::StrCat("version ", reference.version, " of the subject '",
                        Printable(reference.subject), "'");
  }

  Status AddOne(const SchemaReference& reference, size_t depth) {
    const auto [known, is_new] = is_complete_.try_emplace(reference, false);
    if (!is_new && known->second) return absl::OkStatus();
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat("it refers to ", Where(reference), ", which refers to itself"));
    }
    if (depth == kMostReferenceDepth || is_complete_.size() > kMostReferredSchemas) {
      return absl::InvalidArgumentError(
          absl::StrCat("it refers to more than ", kMostReferredSchemas, " schemas, or to schemas ",
                       kMostReferenceDepth, " times behind one another"));
    }
    MILLRACE_ASSIGN_OR_RETURN(RegisteredSchema schema, Fetch(reference));
    MILLRACE_RETURN_IF_ERROR(Add(schema.references, depth + 1));
    bytes_ += schema.json.size();
    if (bytes_ > kMostReferredBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("it refers to schemas of more than ", kMostReferredBytes, " bytes"));
    }
    schemas_.push_back({Where(reference), std::move(schema.json)});
    known->second = true;
    return absl::OkStatus();
  }

  StatusOr<RegisteredSchema> Fetch(const SchemaReference& reference) {
    const StatusOr<std::string> answer = fetch_(reference);
    if (absl::IsNotFound(answer.status())) {
      return absl::NotFoundError(absl::StrCat("it refers to ", Where(reference),
                                              ", which the schema registry does not have"));
    }
    if (!answer.ok()) return answer.status();
    StatusOr<RegisteredSchema> schema = ParseRegistryAnswer(*answer);
    if (schema.ok()) return schema;
    return Status(
        schema.status().code(),
        absl::StrCat("of ", Where(reference), ", which it refers to: ", schema.status().message()));
  }

  const FetchReference& fetch_;
  std::map<SchemaReference, bool> is_complete_;  // false: one of those that led to this one
  std::vector<AvroSchema::Referenced> schemas_;
  size_t bytes_ = 0;
};

}  // namespace

StatusOr<AvroSchema> ResolveSchema(std::string_view answer, const FetchReference& fetch) {
  MILLRACE_ASSIGN_OR_RETURN(const RegisteredSchema schema, ParseRegistryAnswer(answer));
  ReferenceResolver resolver(fetch);
  MILLRACE_RETURN_IF_ERROR(resolver.Add(schema.references, 0));
  return AvroSchema::Parse(schema.json, resolver.schemas());
}

}  // namespace millrace
