#include "topics/row_origin.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "messages/records.pb.h"
#include "topics/frame.h"
#include "topics/message_codec.h"

namespace millrace {

// Of messages that stand one behind the other protobuf makes one: repeated fields are joined. So
// what is appended adds columns to the rows that are there.
void AppendOrigins(std::span<const RowOrigin> origins, std::string& value) {
  InputRecord record;
  RowBatch& rows = *record.mutable_rows();
  for (const RowOrigin& origin : origins) {
    rows.add_event_time_ms(origin.time_ms);
    rows.add_source_partition(origin.partition);
    rows.add_source_offset(static_cast<uint64_t>(origin.offset));
  }
  record.AppendToString(&value);
}

void AppendSourceState(const SourceState& state, std::string& value) {
  SourcedInput input;
  *input.mutable_source() = state;
  input.AppendToString(&value);
}

std::string EncodeSourceState(const SourceState& state) {
  std::string value = WholeFrameHeader();
  AppendSourceState(state, value);
  return value;
}

StatusOr<std::optional<SourceState>> DecodeSourceState(std::string_view value) {
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(value));
  if (frame.is_chunk) return absl::InvalidArgumentError("a chunk, but a state is never split");
  SourcedInput input;
  MILLRACE_RETURN_IF_ERROR(ParseMessage(frame.body, input));
  if (!input.has_source()) return std::nullopt;
  const auto& offsets = input.source().next_offset();
  const auto negative =
      std::find_if(offsets.begin(), offsets.end(), [](int64_t o) { return o < 0; });
  if (negative != offsets.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the state of a source at offset ", *negative, ", which is none"));
  }
  for (const SourceState::Labels::Partition& labels : input.source().labels().partition()) {
    if (labels.next_offset() >= 0 && labels.read() >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("the state of a source at offset ",
                                                   std::min(labels.next_offset(), labels.read()),
                                                   " of labels, which is none"));
  }
  if (input.source().number() == 0) {
    return absl::InvalidArgumentError("the state of a source without a number");
  }
  return std::move(*input.mutable_source());
}

}  // namespace millrace
