// Where rows come from that were copied from another topic: in the records of input-data, behind
// the rows (docs/exactly-once.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "messages/source.pb.h"

namespace millrace {

struct RowOrigin {
  int64_t time_ms = 0;  // when it happened
  uint32_t partition = 0;
  Offset offset = 0;
};

// Appends the origins of the rows to their record, as EncodeRows makes it: one for each row.
void AppendOrigins(std::span<const RowOrigin> origins, std::string& value);

// Appends how far the source was when the record's transaction ended.
void AppendSourceState(const SourceState& state, std::string& value);
// A state alone, as the job topic has it.
std::string EncodeSourceState(const SourceState& state);
// Of a record of either kind; empty: it has none. InvalidArgument: it cannot be parsed, or says
// what no source can have written.
StatusOr<std::optional<SourceState>> DecodeSourceState(std::string_view value);

}  // namespace millrace
