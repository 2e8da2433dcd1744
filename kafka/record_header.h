// A header of a record.
#pragma once

#include <string_view>

namespace millrace {

// A value without data is Kafka's null. A name may occur several times in a record.
struct RecordHeader {
  std::string_view name;
  std::string_view value;
};

}  // namespace millrace
