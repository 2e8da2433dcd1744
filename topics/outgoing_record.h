// A record that a task wants to be sent. Tasks hold no client; their driver sends.
#pragma once

#include <cstdint>
#include <string>

#include "topics/topics.h"

namespace millrace {

struct OutgoingRecord {
  Topic topic = Topic::kMetrics;
  int32_t partition = 0;
  std::string key;
  std::string value;
};

}  // namespace millrace
