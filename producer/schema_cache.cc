#include "producer/schema_cache.h"

#include "absl/strings/str_cat.h"
#include "base/error_marks.h"

namespace millrace {

StatusOr<SchemaCache::Schema> SchemaCache::Get(uint32_t id) {
  if (id > kHighestId) {
    return absl::InvalidArgumentError(
        absl::StrCat("schema ", id, ": no registry has ids above ", kHighestId,
                     "; was the record written without a schema registry's serializer?"));
  }
  const auto found = entries_.find(id);
  if (found != entries_.end() && now_() < found->second.until) return found->second.schema;
  return AskInBackground(id);
}

StatusOr<SchemaCache::Schema> SchemaCache::AskInBackground(uint32_t id) {
  constexpr std::chrono::seconds kNow(0);
  if (question_.valid() && question_.wait_for(kNow) == std::future_status::ready) {
    const Answer answer = question_.get();
    StatusOr<Schema> kept = Keep(asked_, answer);
    if (asked_ == id) return kept;
  }
  if (!question_.valid()) {
    asked_ = id;
    question_ = std::async(std::launch::async, [this, id] { return Ask(id); });
  }
  return MarkPending(absl::UnavailableError("the schema registry has not answered yet"));
}

StatusOr<SchemaCache::Schema> SchemaCache::Keep(uint32_t id, const Answer& answer) {
  const StatusOr<Schema>& schema = answer.schema;
  if (!schema.ok() && !absl::IsInvalidArgument(schema.status())) return schema;
  if (!schema.ok() && lines_ < kMostLines) {
    ++lines_;
    say_(std::string(TextOf(schema.status())));
  }
  if (entries_.size() >= kMost) entries_.clear();
  const Time until = answer.may_come ? now_() + kUnknownFor : Time::max();
  entries_.insert_or_assign(id, Entry{schema, until});
  return schema;
}

// In another thread: it has what does not change.
SchemaCache::Answer SchemaCache::Ask(uint32_t id) const {
  const StatusOr<std::string> answer = fetch_(id);
  if (absl::IsNotFound(answer.status())) {
    return {absl::InvalidArgumentError(
                absl::StrCat("schema ", id, ": the schema registry has no such schema")),
            true};
  }
  if (!answer.ok()) return {answer.status()};
  StatusOr<AvroSchema> schema = ResolveSchema(*answer, fetch_reference_);
  if (absl::IsUnavailable(schema.status()) || absl::IsCancelled(schema.status())) {
    return {schema.status()};
  }
  if (!schema.ok()) {
    const bool is_missing = absl::IsNotFound(schema.status());
    return {Status(is_missing ? absl::StatusCode::kInvalidArgument : schema.status().code(),
                   absl::StrCat("schema ", id, ": ", schema.status().message())),
            is_missing};
  }
  return {std::make_shared<const AvroSchema>(*std::move(schema))};
}

}  // namespace millrace
