// A record that a task wants to be sent. Tasks hold no client; their driver sends.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "topics/topics.h"

namespace millrace {

struct OutgoingRecord {
  Topic topic = Topic::kMetrics;
  int32_t partition = 0;
  std::string key;
  std::string value;
  // Of `weights`: the workers that it answers; none: it is for those who follow the job.
  std::vector<WorkerId> answers{};
  // It answers a worker that has asked.
  bool is_reply = false;
};

// Takes a task's records one by one. A shard's answers to all its workers may be larger than
// memory, so each is made when the one before has been taken.
class RecordSink {
 public:
  using Take = std::function<Status(OutgoingRecord record)>;

  // Errors of `take` end the call of the task, which returns them.
  explicit RecordSink(Take take) : take_(std::move(take)) {}
  // Appends to `records`, which outlive the sink. Implicit: where few are made, a vector will do.
  RecordSink(std::vector<OutgoingRecord>& records)  // NOLINT(google-explicit-constructor)
      : take_([&records](OutgoingRecord record) {
          records.push_back(std::move(record));
          return absl::OkStatus();
        }) {}

  Status operator()(OutgoingRecord record) const { return take_(std::move(record)); }

 private:
  Take take_;
};

}  // namespace millrace
