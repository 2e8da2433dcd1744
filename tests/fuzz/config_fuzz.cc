// Configuration files of any text: parsed or refused, with the place of the error; what was parsed
// is the same when it is written and read again.
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include "apps/config_checks.h"
#include "apps/job_flags.h"
#include "base/check.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/target.h"

namespace millrace::fuzz {
namespace {

void CheckRoundTrip(const JobConfig& config) {
  std::string text;
  MILLRACE_CHECK(google::protobuf::TextFormat::PrintToString(config, &text));
  JobConfig again;
  const Status status = ParseConfigText(text, "again", again);
  MILLRACE_CHECK(status.ok());
  google::protobuf::util::MessageDifferencer differencer;
  // NaN is a value that can be written.
  google::protobuf::util::DefaultFieldComparator comparator;
  comparator.set_treat_nan_as_equal(true);
  differencer.set_field_comparator(&comparator);
  MILLRACE_CHECK(differencer.Compare(config, again));
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  if (bytes.Chance(128)) {
    JobConfig config;
    config.set_name("fuzz");
    while (!bytes.empty()) Mutate(config, bytes);
    const Status status = ValidateConfig(config);
    MILLRACE_CHECK(status.ok() || !status.message().empty());
    return;
  }
  JobConfig config;
  const Status status = ParseConfigText(std::string(bytes.Rest()), "FILE", config);
  if (!status.ok()) {
    MILLRACE_CHECK(std::string(status.message()).starts_with("FILE:"));
    return;
  }
  CheckRoundTrip(config);
  const Status valid = ValidateConfig(config);
  MILLRACE_CHECK(valid.ok() || !valid.message().empty());
}

}  // namespace millrace::fuzz
