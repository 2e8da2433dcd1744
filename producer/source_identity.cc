#include "producer/source_identity.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kafka/timeouts.h"
#include "producer/source_positions.h"
#include "producer/source_reader.h"

namespace millrace {
namespace {

constexpr size_t kReadAtOnce = 1000;

std::string TextOfTime(int64_t timestamp_ms) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%E3S UTC", absl::FromUnixMillis(timestamp_ms),
                          absl::UTCTimeZone());
}

}  // namespace

Status CheckSameTopic(const KafkaOptions& kafka, const SourceTopic& topic, const SourceState& state,
                      bool goes_on, ProgressDisplay& display, const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const auto reader, SourceReader::Create(kafka, topic.name, stop));
  std::map<int32_t, LastRecord> open;
  for (int32_t partition = 0; partition < state.next_offset_size(); ++partition) {
    if (const auto last = LastRecordOf(state, partition)) open[partition] = *last;
  }
  std::string other;
  SourceReader::Handler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    const auto found = open.find(record.partition);
    if (found == open.end()) return absl::OkStatus();
    const LastRecord last = found->second;
    open.erase(found);
    if (record.offset != last.offset || record.timestamp_ms == last.timestamp_ms ||
        !other.empty()) {
      return absl::OkStatus();
    }
    other = absl::StrCat(topic.name, " [", record.partition, "]: the record at offset ",
                         int64_t{last.offset}, " has the time ", TextOfTime(record.timestamp_ms),
                         "; when this job read it, it had ", TextOfTime(last.timestamp_ms),
                         ". So the topic was deleted and made again, or has lost its end");
    return absl::OkStatus();
  };
  handler.on_end = [&](int32_t partition, Offset) { open.erase(partition); };
  handler.next_offset = [&](int32_t partition) {
    const auto found = open.find(partition);
    return found == open.end() ? NextOffset(state, partition) : found->second.offset;
  };
  handler.on_deleted = [&](int32_t partition, Offset) {
    open.erase(partition);
    return absl::OkStatus();
  };
  const std::map<int32_t, LastRecord> all = open;
  for (const auto& [partition, last] : all) {
    MILLRACE_RETURN_IF_ERROR(reader->Start(partition, handler));
  }
  while (!open.empty()) {
    if (stop) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, reader->Poll(kReadAtOnce, handler));
    if (events == 0) reader->Wait(kPoll);
  }
  if (other.empty()) return absl::OkStatus();
  if (!goes_on) {
    return absl::DataLossError(absl::StrCat(
        other,
        ". Start a new job (another --job) to read the new topic from its beginning; or give "
        "--on-data-loss continue: ",
        topic.program,
        " then reads on behind that offset, and skips what "
        "stands before"));
  }
  display.Warn(absl::StrCat(other, "; reading on behind that offset (--on-data-loss continue)"));
  return absl::OkStatus();
}

}  // namespace millrace
