// Looks at what a topic holds before its rows are read: for the classes, and for a label whose
// level moves.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "features/class_scan.h"
#include "features/feature_encoder.h"
#include "kafka/options.h"
#include "messages/features.pb.h"
#include "producer/schema_wait.h"
#include "producer/source_format.h"

namespace millrace {

struct SearchedTopic {
  std::string name;
  const KafkaOptions& kafka;
  std::vector<Offset> begin;  // of each partition: nothing before is looked at
  const SourceFormat& format;
  SchemaWait& schema_wait;
  const std::atomic<bool>& stop;
};

// The classes in the first 100,000 records, or all if there are fewer. `checker` is without
// classes. FailedPrecondition, with the remedy: there are none, or none can be used. Cancelled once
// it is stopped.
StatusOr<ClassScan> SearchTopicForClasses(const SearchedTopic& topic, const std::string& label,
                                          const FeatureEncoder& checker);

// What MovingLevel() says of the labels in the first 20,000 records, or all if there are fewer,
// each partition a stream of its own. REQUIRES that `spec` has its classes and edges. Cancelled
// once it is stopped.
StatusOr<std::optional<double>> SearchTopicForMovingLevel(const SearchedTopic& topic,
                                                          const FeatureSpec& spec);

}  // namespace millrace
