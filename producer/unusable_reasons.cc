#include "producer/unusable_reasons.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/grouped_number.h"
#include "formats/text_beginning.h"

namespace millrace {
namespace {

// Further kinds are counted, but none of them is told.
constexpr size_t kMostKinds = 64;
constexpr uint64_t kOneInTen = 10;

// The name of a column may be quoted, too: what tells kinds apart is the reason up to its second
// quoted text, or to a number.
std::string_view KindOf(std::string_view reason) {
  reason = WithoutBeginning(reason);
  size_t quotes = 0;
  for (size_t i = 0; i < reason.size(); ++i) {
    if (reason[i] == '"' && ++quotes == 3) return reason.substr(0, i);
    const bool is_digit = reason[i] >= '0' && reason[i] <= '9';
    if (is_digit && quotes % 2 == 0) return reason.substr(0, i);
  }
  return reason;
}

}  // namespace

void UnusableReasons::Add(std::string_view reason) {
  ++count_;
  const std::string_view kind = KindOf(reason);
  auto found = kinds_.find(kind);
  if (found == kinds_.end()) {
    if (kinds_.size() == kMostKinds) return;
    found = kinds_.emplace(std::string(kind), Kind()).first;
  }
  ++found->second.count;
  found->second.example = std::string(reason);
}

std::string UnusableReasons::Text(std::string_view topic, uint64_t records) const {
  MILLRACE_CHECK(count_ <= records);
  if (count_ == 0 || (count_ < records && count_ <= records / kOneInTen)) return "";
  const auto most =
      std::ranges::max_element(kinds_, {}, [](const auto& entry) { return entry.second.count; });
  const std::string first =
      absl::StrCat(GroupedNumber(records), records == 1 ? " record" : " records");
  const std::string what =
      count_ == records
          ? absl::StrCat("none of the first ", first, " is a row")
          : absl::StrCat(GroupedNumber(count_), " of the first ", first, " are no rows");
  return absl::StrCat(absl::string_view(topic.data(), topic.size()), ": ", what,
                      "; the most frequent reason (", GroupedNumber(most->second.count),
                      "): ", most->second.example, "; check --format, --label and the columns");
}

}  // namespace millrace
