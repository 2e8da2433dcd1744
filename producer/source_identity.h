// Whether a source's topic is still the one that was read, and no other of its name.
#pragma once

#include <atomic>

#include "base/status.h"
#include "kafka/options.h"
#include "messages/source.pb.h"
#include "producer/progress_display.h"
#include "producer/source_notes.h"

namespace millrace {

// Reads the last record of each partition once more: one that was written at another time is
// another topic's. DataLoss, or a warning if it goes on. A record that is not there any more, as by
// retention or compaction, says nothing. Waits for a broker; Cancelled.
Status CheckSameTopic(const KafkaOptions& kafka, const SourceTopic& topic, const SourceState& state,
                      bool goes_on, ProgressDisplay& display, const std::atomic<bool>& stop);

}  // namespace millrace
