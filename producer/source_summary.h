// What TopicSource says of what it has written. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "messages/records.pb.h"
#include "messages/source.pb.h"
#include "producer/progress_text.h"

namespace millrace {

// `ended`: with the end of the stream.
ProducerProgress ProgressOfSource(const SourceState& written, const MetricPoint::Setup& setup,
                                  bool ended);
// `rows_of_run`: how many of the rows this run has written; `labels_topic`: empty: it joins none.
std::string SummaryOfSource(const std::string& input_data, const SourceState& written,
                            uint64_t rows_of_run, const std::string& labels_topic);

}  // namespace millrace
