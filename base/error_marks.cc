#include "base/error_marks.h"

#include <string_view>
#include <utility>

#include "absl/strings/cord.h"
#include "base/check.h"

namespace millrace {
namespace {

constexpr char kFenced[] = "millrace/fenced";
constexpr char kPermanent[] = "millrace/permanent";
constexpr char kPending[] = "millrace/pending";

Status Mark(Status status, const char* mark) {
  MILLRACE_CHECK(!status.ok());
  status.SetPayload(mark, absl::Cord("1"));
  return status;
}

}  // namespace

Status MarkFenced(Status status) { return Mark(std::move(status), kFenced); }
bool IsFenced(const Status& status) { return status.GetPayload(kFenced).has_value(); }

Status MarkPermanent(Status status) { return Mark(std::move(status), kPermanent); }
bool IsPermanent(const Status& status) { return status.GetPayload(kPermanent).has_value(); }

Status MarkPending(Status status) { return Mark(std::move(status), kPending); }
bool IsPending(const Status& status) { return status.GetPayload(kPending).has_value(); }

Status WithText(const Status& status, std::string_view text) {
  Status result(status.code(), absl::string_view(text.data(), text.size()));
  status.ForEachPayload([&result](absl::string_view mark, const absl::Cord& value) {
    result.SetPayload(mark, value);
  });
  return result;
}

}  // namespace millrace
