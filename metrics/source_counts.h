// What TopicSource counts of the topics that it reads, in its points of the metrics topic. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "messages/records.pb.h"
#include "messages/source.pb.h"

namespace millrace {

// Adds the counts of the state, and the names of the topics.
void AddSourceCounts(const SourceState& state, MetricPoint::ProducerProgress& point);

// Those of a point that came from the topic. Empty: it is none of TopicSource, or of a version
// before they were told.
std::optional<SourceState> SourceCountsOf(const MetricPoint::ProducerProgress& point);

// The program that sent the point.
const char* NameOfProducer(const MetricPoint::ProducerProgress& point);

// Rows that left the join of labels that come later, with a label or without one.
uint64_t JoinedRows(const SourceState::Labels& labels);

// "1,000 rows have a label; 3 labels were of no row": counts that are 0 are left out.
std::string LabelCountsText(const SourceState::Labels& labels);

}  // namespace millrace
