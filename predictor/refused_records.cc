#include "predictor/refused_records.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/grouped_number.h"
#include "base/utc_time.h"

namespace millrace {
namespace {

std::string PlaceOf(const RefusedRecords& batch, const SentAnswer& record) {
  return absl::StrCat(batch.input, " [", record.partition, "] offset ", int64_t{record.offset});
}

// "IN [0] offsets 7 to 12, IN [3] offset 4".
std::string PlacesOf(const RefusedRecords& batch) {
  constexpr size_t kMostNamed = 3;
  std::map<int32_t, std::pair<Offset, Offset>> ranges;
  for (const SentAnswer& record : batch.records) {
    const auto [found, is_new] =
        ranges.emplace(record.partition, std::pair(record.offset, record.offset));
    auto& [first, last] = found->second;
    first = std::min(first, record.offset);
    last = std::max(last, record.offset);
  }
  std::string places;
  size_t named = 0;
  for (const auto& [partition, range] : ranges) {
    if (named++ == kMostNamed) break;
    const auto& [first, last] = range;
    absl::StrAppend(&places, places.empty() ? "" : ", ", batch.input, " [", partition, "] offset",
                    first == last ? absl::StrCat(" ", int64_t{first})
                                  : absl::StrCat("s ", int64_t{first}, " to ", int64_t{last}));
  }
  if (ranges.size() > kMostNamed) {
    absl::StrAppend(&places, ", and of ", ranges.size() - kMostNamed, " more partitions");
  }
  return places;
}

std::string TimeOf(const SentAnswer& record) {
  constexpr int64_t kYear10000Ms = 253'402'300'800'000;
  if (record.timestamp_ms < 0 || record.timestamp_ms >= kYear10000Ms) {
    return absl::StrCat(record.timestamp_ms, " ms");
  }
  return UtcTime(record.timestamp_ms);
}

std::string TimeText(const RefusedRecords& batch) {
  const auto [earliest, latest] =
      std::ranges::minmax_element(batch.records, {}, &SentAnswer::timestamp_ms);
  std::string text = absl::StrCat(PlaceOf(batch, *earliest), " has the time ", TimeOf(*earliest));
  if (earliest != latest) {
    absl::StrAppend(&text, ", the earliest of them, and ", PlaceOf(batch, *latest), " ",
                    TimeOf(*latest), ", the latest");
  }
  return absl::StrCat(text, ". Set message.timestamp.type=LogAppendTime of ", batch.output,
                      ", or raise its message.timestamp.before.max.ms (for early times) or "
                      "message.timestamp.after.max.ms (for late ones; before Kafka 3.6 both are "
                      "message.timestamp.difference.max.ms)");
}

std::string RecordText(const RefusedRecords& batch) {
  const auto keyless =
      std::ranges::find_if(batch.records, [](const SentAnswer& record) { return !record.has_key; });
  if (keyless == batch.records.end()) {
    return absl::StrCat("Look at the settings of ", batch.output, " and at the broker's log");
  }
  return absl::StrCat(PlaceOf(batch, *keyless),
                      " has no key, and a compacted topic takes none such. Set "
                      "cleanup.policy=delete of ",
                      batch.output, ", or give the records of ", batch.input, " keys");
}

std::string SizeText(const RefusedRecords& batch) {
  const auto largest = std::ranges::max_element(batch.records, {}, &SentAnswer::bytes);
  return absl::StrCat(PlaceOf(batch, *largest), " is the largest of them with its prediction, of ",
                      GroupedNumber(largest->bytes), " bytes. Set max.message.bytes=1048588 of ",
                      batch.output, ", or more");
}

std::string CauseAndRemedy(const RefusedRecords& batch) {
  switch (batch.refused) {
    case Refused::kTime:
      return TimeText(batch);
    case Refused::kRecord:
      return RecordText(batch);
    case Refused::kSize:
      return SizeText(batch);
    case Refused::kOther:
    case Refused::kNothing:
      break;
  }
  return absl::StrCat("Ask who runs the cluster for its policies, and look at the settings of ",
                      batch.output);
}

}  // namespace

std::string RefusalText(const RefusedRecords& batch) {
  MILLRACE_CHECK(!batch.records.empty());
  const size_t count = batch.records.size();
  return absl::StrCat("the output topic ", batch.output, " refuses ",
                      count == 1
                          ? "the answer to "
                          : absl::StrCat("a batch of ", GroupedNumber(count), " answers, to "),
                      PlacesOf(batch), " (", batch.reason, "). ", CauseAndRemedy(batch),
                      "; then start Predictor again: it continues there");
}

}  // namespace millrace
