// What `dead-letter` holds of a record that could not be used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/types.h"
#include "messages/records.pb.h"

namespace millrace {

struct UnusableRecord {
  std::string_view topic;  // without the job's name: "gradients"
  int32_t partition = 0;
  Offset offset = 0;
  std::string_view key{};
  std::string_view value{};
};

// Cuts what is too long, so that the letter is one record whatever it holds: topic and
// reason at 1 KiB, key and value at a third of a frame.
void CutToOneRecord(DeadLetter& letter);

// The letter has the record's key and value, cut; with `reasons_only` it has neither.
DeadLetter MakeDeadLetter(const UnusableRecord& record, std::string reason, bool reasons_only);

}  // namespace millrace
