// What to say when a broker refuses what is written to an output topic. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"
#include "kafka/producer.h"

namespace millrace {

// A record of the input, and what of its answer a broker looks at.
struct SentAnswer {
  int32_t partition = 0;  // of the input, as the offset
  Offset offset = 0;
  int64_t timestamp_ms = 0;
  bool has_key = false;
  size_t bytes = 0;  // of key, value and headers
};

// Those of one refusal. (A broker refuses a whole batch, and does not say for which record.)
struct RefusedRecords {
  std::string output{};
  std::string input{};
  std::string reason{};  // of the broker, in words
  Refused refused = Refused::kNothing;
  std::vector<SentAnswer> records{};
};

// Names the topic, the reason, the records, that one of them which the broker must have refused or
// is the likeliest, and the setting of the topic to change. REQUIRES: records.
std::string RefusalText(const RefusedRecords& batch);

}  // namespace millrace
