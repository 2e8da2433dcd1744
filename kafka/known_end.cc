#include "kafka/known_end.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace {

void KnownEnd::Know(Offset end) { offset_ = std::max(offset_, end); }

void KnownEnd::Meet(Offset end, Time now) {
  if (met_ && end <= *met_) return;
  met_ = end;
  met_at_ = now;
}

void KnownEnd::Pass(Offset record) {
  if (record + 1 >= offset_) met_ = std::max(met_.value_or(0), record + 1);
}

Status KnownEnd::Overdue(const std::string& topic, int32_t partition) const {
  return EndOfBefore(topic, partition, met_.value_or(0), offset_);
}

Status EndOfBefore(const std::string& topic, int32_t partition, Offset told, Offset known) {
  return absl::UnavailableError(absl::StrCat(
      topic, " [", partition, "] ends at offset ", int64_t{told},
      " according to its broker, but had records before offset ", int64_t{known},
      ". If the broker has just become the leader, try again when it has caught up. Otherwise the "
      "records are lost (an unclean leader election, or a broker's disk): see docs/failures.md"));
}

}  // namespace millrace
