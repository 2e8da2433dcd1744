// The classes in what a topic holds, before its rows are read.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "features/class_scan.h"
#include "features/feature_encoder.h"
#include "producer/row_decoder.h"
#include "producer/schema_wait.h"
#include "producer/source_reader.h"

namespace millrace {

struct TopicScan {
  SourceReader& reader;       // that reads nothing yet
  std::vector<Offset> begin;  // of each partition
  const CellDecoder& decode;  // of the checker's columns
  SchemaWait& schema_wait;
  const std::atomic<bool>& stop;
};

// Looks at what the topic holds from there on, but no further than at 100,000 records. `checker` is
// without classes. FailedPrecondition, with the remedy: there are none, or none can be used.
StatusOr<ClassScan> ScanTopic(const std::string& topic, const std::string& label,
                              const FeatureEncoder& checker, TopicScan scan);

}  // namespace millrace
