// Receives servers' answers by streams.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"

namespace millrace {

// Keeps a stream to each server that offers one in the job topic, as long as there are workers. A
// thread of its own finds the servers, and connects again, after longer and longer pauses. Answers
// may come through Kafka at any time: who has this reads `weights` as if it had not. The calls are
// for one thread.
class AnswerReceiver {
 public:
  // An error: the record cannot be used, so its stream is ended.
  using Take =
      std::function<Status(int32_t partition, std::string_view key, std::string_view value)>;

  // `config` and `wakeup`, which is notified of records, outlive it. NotFound or InvalidArgument:
  // the TLS files cannot be read.
  static StatusOr<std::unique_ptr<AnswerReceiver>> Create(const JobConfig& config, uint32_t shards,
                                                          Wakeup* wakeup);
  // Ends the streams.
  virtual ~AnswerReceiver() = default;

  // The workers that this process has from now on.
  virtual void Subscribe(const std::set<WorkerId>& workers) = 0;
  // Passes on what has come; returns how many records.
  virtual size_t Poll(const Take& take) = 0;
  // Waits as the wakeup does, for records of streams and for all that notifies it.
  virtual void WaitFor(std::chrono::milliseconds timeout) = 0;
  // Whether a stream has ended since the last call: what it had may be lost.
  virtual bool TakeEnded() = 0;
  // Servers do not answer: they may have new addresses.
  virtual void LookAgain() = 0;
};

}  // namespace millrace
