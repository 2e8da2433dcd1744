// Waits for the outcome of a transaction, and says that it does: a broker that takes requests and
// does not answer them ends no connection, so the client's log is silent.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "base/status.h"
#include "kafka/broker_retry.h"

namespace millrace {

// Used by one thread.
class OutcomeWait {
 public:
  struct Options {
    std::string topic;     // which the transaction writes to
    std::string program;   // that waits
    double timeout_s = 0;  // of `retry`, for the text; 0: none
    // Gets a line after `first`, after twice as long .. kMost, and one when the outcome is known.
    std::function<void(const std::string& line)> warn;
    std::chrono::milliseconds first = std::chrono::seconds(10);
  };
  static constexpr std::chrono::minutes kMost{5};  // between two lines

  OutcomeWait(BrokerRetry retry, Options options) : retry_(retry), options_(std::move(options)) {}

  // Calls `call` until its outcome is known. Errors: those of BrokerRetry::Run; that of its time
  // limit names topic, limit and remedy.
  Status Run(const std::function<Status()>& call) const;

 private:
  const BrokerRetry retry_;
  const Options options_;
};

}  // namespace millrace
