#include "topics/dead_letter.h"

#include <utility>

#include "topics/frame.h"

namespace millrace {

DeadLetter MakeDeadLetter(const UnusableRecord& record, std::string reason, bool reasons_only) {
  constexpr size_t kKept = kMaxFrameBytes / 3;
  DeadLetter letter;
  letter.set_topic(std::string(record.topic));
  letter.set_partition(record.partition);
  letter.set_offset(record.offset);
  letter.set_reason(std::move(reason));
  if (reasons_only) return letter;
  letter.set_key(std::string(record.key.substr(0, kKept)));
  letter.set_value(std::string(record.value.substr(0, kKept)));
  return letter;
}

}  // namespace millrace
