#include "job/begun_by.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "topics/protocol.h"

namespace millrace {
namespace {

constexpr char kRemedy[] =
    ": let all programs of the job have the same version of Millrace, or start a new job (another "
    "--job)";

bool KnowsAllOf(const google::protobuf::Message& published) {
  const std::unique_ptr<google::protobuf::Message> known(published.New());
  known->CopyFrom(published);
  known->DiscardUnknownFields();
  return known->ByteSizeLong() == published.ByteSizeLong();
}

}  // namespace

std::string BeginKey(std::string_view name, uint32_t writer) {
  return absl::StrCat(std::string(name), ":", kProtocol, "-", writer);
}

StatusOr<uint32_t> ProtocolOfKey(std::string_view key) {
  const std::string_view numbers = key.substr(std::min(key.size(), key.find(':') + 1));
  const size_t dash = numbers.substr(0, numbers.find(':')).find('-');
  if (dash == std::string_view::npos) return 1;
  uint32_t protocol = 0;
  const char* const end = numbers.data() + dash;
  const auto parsed = std::from_chars(numbers.data(), end, protocol);
  if (parsed.ec == std::errc() && parsed.ptr == end && protocol > 0) return protocol;
  return absl::InvalidArgumentError("the number of the protocol in its key is malformed");
}

Status CheckUnderstood(std::string_view job, uint32_t protocol,
                       const google::protobuf::Message& published) {
  if (protocol != kProtocol) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job ", std::string(job), " was begun by a program whose protocol is ",
                     protocol, ", and the protocol of this one is ", kProtocol, kRemedy));
  }
  if (KnowsAllOf(published)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the job ", std::string(job),
      " was begun by another version of Millrace, with settings that this one does not know",
      kRemedy));
}

}  // namespace millrace
