// Whether a broker still says an end that is overdue.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "kafka/consumer.h"
#include "kafka/known_end.h"

namespace millrace {

// A consumer is told of an end once, maybe by a broker that led the partition no longer. So where
// an end is overdue, this asks once more, for kBrokerCall at most. OK: it is not overdue, or no
// broker says so now; its time begins again. Unavailable: KnownEnd::Overdue. `consumer` may read
// the partition meanwhile.
Status CheckOverdueEnd(KnownEnd& end, PartitionConsumer& consumer, const std::string& topic,
                       int32_t partition);

}  // namespace millrace
