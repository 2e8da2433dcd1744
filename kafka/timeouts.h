// How long the loops and calls of this folder wait. None of these changes a result.
#pragma once

#include <chrono>

namespace millrace {

// One call to a broker, before BrokerRetry repeats it.
constexpr std::chrono::milliseconds kBrokerCall = std::chrono::seconds(10);
// Until a loop checks its timers although no record has arrived.
constexpr std::chrono::milliseconds kIdleWait(50);
// For records, when there is nothing else to do.
constexpr std::chrono::milliseconds kPoll(100);
// Between checks whether the job has ended, for a process that has finished its part.
constexpr std::chrono::milliseconds kRegistryEveryAtTheEnd(200);
// A consumer that rests asks so often (ConsumerOptions::fetch_wait); a partition that is added to
// others may wait as long, once.
constexpr std::chrono::milliseconds kFetchWait(100);
// For room in a producer's queue.
constexpr std::chrono::milliseconds kQueueFull(10);

}  // namespace millrace
