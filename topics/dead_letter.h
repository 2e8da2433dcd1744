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

// The letter has the record's key and value, each cut to a third of a frame, so that the letter is
// one record whatever it holds; with `reasons_only` it has neither.
DeadLetter MakeDeadLetter(const UnusableRecord& record, std::string reason, bool reasons_only);

}  // namespace millrace
