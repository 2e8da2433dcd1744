// What a program says of a topic that it reads and others write.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/admin.h"
#include "producer/progress_display.h"

namespace millrace {

struct SourceTopic {
  std::string name;
  const char* program = "";  // that reads it
};

// FailedPrecondition: a topic of so many partitions is not read.
Status CheckPartitions(const SourceTopic& topic, int32_t partitions);
// The number of partitions now, but no more than are read; `known` while no broker answers.
StatusOr<int32_t> PartitionsNow(KafkaAdmin& admin, const SourceTopic& topic, int32_t known);

// Offsets [next, begin) were deleted before they were read: DataLoss, or a warning if it goes on.
Status NoteDeleted(const SourceTopic& topic, int32_t partition, Offset next, Offset begin,
                   bool goes_on, ProgressDisplay& display);

// Columns that had no value in any of the first `rows` rows: a member that is not there is an empty
// cell, so a mistyped name is no error of any record.
void WarnOfEmptyColumns(const SourceTopic& topic, const std::vector<std::string>& columns,
                        uint64_t rows, ProgressDisplay& display);

}  // namespace millrace
