#include "producer/schema_cache.h"

#include "absl/strings/str_cat.h"

namespace millrace {

StatusOr<SchemaCache::Schema> SchemaCache::Get(uint32_t id) {
  if (id > kHighestId) {
    return absl::InvalidArgumentError(
        absl::StrCat("schema ", id, ": no registry has ids above ", kHighestId,
                     "; was the record written without a schema registry's serializer?"));
  }
  const auto found = entries_.find(id);
  if (found != entries_.end() && now_() < found->second.until) return found->second.schema;
  Time until = Time::max();
  StatusOr<Schema> schema = Ask(id, &until);
  if (!schema.ok() && !absl::IsInvalidArgument(schema.status())) return schema;
  if (!schema.ok() && lines_ < kMostLines) {
    ++lines_;
    say_(absl::StrCat(schema.status().message(), "; its records go to dead-letter"));
  }
  if (entries_.size() >= kMost) entries_.clear();
  entries_.insert_or_assign(id, Entry{schema, until});
  return schema;
}

StatusOr<SchemaCache::Schema> SchemaCache::Ask(uint32_t id, Time* until) {
  const StatusOr<std::string> answer = fetch_(id);
  if (absl::IsNotFound(answer.status())) {
    *until = now_() + kUnknownFor;
    return absl::InvalidArgumentError(
        absl::StrCat("schema ", id, ": the schema registry has no such schema"));
  }
  if (!answer.ok()) return answer.status();
  StatusOr<AvroSchema> schema = ResolveSchema(*answer, fetch_reference_);
  if (absl::IsUnavailable(schema.status()) || absl::IsCancelled(schema.status())) {
    return schema.status();
  }
  if (!schema.ok()) {
    const bool is_missing = absl::IsNotFound(schema.status());
    if (is_missing) *until = now_() + kUnknownFor;
    return Status(is_missing ? absl::StatusCode::kInvalidArgument : schema.status().code(),
                  absl::StrCat("schema ", id, ": ", schema.status().message()));
  }
  return std::make_shared<const AvroSchema>(*std::move(schema));
}

}  // namespace millrace
