// How long the loops and calls of this folder wait. None of these changes a result.
#pragma once

#include <chrono>

namespace millrace {

// One call to a broker, before BrokerRetry makes it again.
constexpr std::chrono::milliseconds kBrokerCall = std::chrono::seconds(10);
// Until a loop looks at its timers although no record has come.
constexpr std::chrono::milliseconds kIdleWait(50);
// For records, where there is nothing else to do.
constexpr std::chrono::milliseconds kPoll(100);
// Between looks at whether a job has ended, for who is done with it.
constexpr std::chrono::milliseconds kBoardEveryAtTheEnd(200);
// For room in a producer's queue.
constexpr std::chrono::milliseconds kQueueFull(10);

}  // namespace millrace
