#include "tasks/answer_routes.h"

#include <algorithm>

#include "base/check.h"
#include "topics/frame.h"

namespace millrace {

AnswerRoutes::Stream AnswerRoutes::Open() {
  waiting_[++last_] = 0;
  return last_;
}

std::vector<WorkerId> AnswerRoutes::Subscribe(Stream stream, const std::set<WorkerId>& workers) {
  std::vector<WorkerId> lost;
  if (!waiting_.contains(stream)) return lost;
  std::erase_if(stream_of_, [&](const auto& entry) {
    const bool is_lost = (entry.second == stream) != workers.contains(entry.first);
    if (is_lost) lost.push_back(entry.first);
    return is_lost;
  });
  for (const WorkerId worker : workers) stream_of_[worker] = stream;
  return lost;
}

std::vector<WorkerId> AnswerRoutes::Close(Stream stream) {
  waiting_.erase(stream);
  std::vector<WorkerId> workers;
  std::erase_if(stream_of_, [&](const auto& entry) {
    if (entry.second != stream) return false;
    workers.push_back(entry.first);
    return true;
  });
  return workers;
}

AnswerRoutes::Ways AnswerRoutes::RouteMessage(const OutgoingRecord& record, size_t bytes) const {
  Ways ways;
  if (record.topic != Topic::kWeights || record.answers.empty()) return ways;
  // Whoever asks may be another than the one who has the stream.
  ways.log = record.is_reply;
  for (const WorkerId worker : record.answers) {
    const auto found = stream_of_.find(worker);
    if (found == stream_of_.end() || waiting_.at(found->second) + bytes > most_waiting_bytes_) {
      ways.log = true;
    } else if (std::ranges::find(ways.streams, found->second) == ways.streams.end()) {
      ways.streams.push_back(found->second);
    }
  }
  return ways;
}

AnswerRoutes::Ways AnswerRoutes::Route(const OutgoingRecord& record) {
  const StatusOr<Frame> frame = ParseFrame(record.value);
  MILLRACE_CHECK(frame.ok());
  Ways& ways = ways_[record.key.substr(0, sizeof(uint32_t))];
  if (frame->index == 0) ways = RouteMessage(record, record.value.size() * frame->count);
  std::erase_if(ways.streams, [this](Stream stream) { return !waiting_.contains(stream); });
  for (const Stream stream : ways.streams) waiting_.at(stream) += record.value.size();
  return ways;
}

void AnswerRoutes::Taken(Stream stream, size_t bytes) {
  const auto found = waiting_.find(stream);
  if (found != waiting_.end()) found->second -= bytes;
}

}  // namespace millrace
