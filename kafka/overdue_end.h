// How a consumer's records and events tell where a partition ends.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "kafka/consumer.h"
#include "kafka/known_end.h"

namespace millrace {

// Has `end`, which outlives the handler, hear of each record and of each end that the handler is
// told of. REQUIRES handler.on_record; takes the place of handler.on_end.
void TellEnd(KnownEnd& end, ConsumerHandler& handler);

// A consumer is told of an end once, maybe by a broker that led the partition no longer. So where
// an end is overdue, this asks once more, for kBrokerCall at most. OK: it is not overdue, or no
// broker says so now; its time begins again. Unavailable: KnownEnd::Overdue. `consumer` may read
// the partition meanwhile.
Status CheckOverdueEnd(KnownEnd& end, PartitionConsumer& consumer, const std::string& topic,
                       int32_t partition);

}  // namespace millrace
