// Prints the updates of a job's workers to shard 0, as they come: a line for each with the broker's
// clock in milliseconds, the logical worker and its clock. Ends when it is killed, or when the
// server deletes faster than it reads (give the server a long --checkpoint-interval).
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>

#include "apps/job_flags.h"
#include "apps/program.h"
#include "job/kafka_options.h"
#include "kafka/consumer.h"
#include "messages/records.pb.h"
#include "topics/frame.h"
#include "topics/message_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

void PrintUpdate(const ConsumedRecord& record) {
  const StatusOr<Frame> frame = ParseFrame(record.value);
  if (!frame.ok() || frame->is_chunk) return;
  Gradient message;
  if (!ParseMessage(frame->body, message).ok() || !message.has_update()) return;
  std::printf("%lld %u %llu\n", static_cast<long long>(record.timestamp_ms), message.worker(),
              static_cast<unsigned long long>(message.clock()));
}

Status PrintUpdates(const JobFlags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, flags.Load());
  Wakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<PartitionConsumer> gradients,
      PartitionConsumer::Create(ToKafkaOptions(config), {.client_id = "job-updates"},
                                TopicName(config, Topic::kGradients), &wakeup));
  MILLRACE_RETURN_IF_ERROR(gradients->Assign(0, 0));
  ConsumerHandler handler;
  handler.on_record = [](const ConsumedRecord& record) {
    PrintUpdate(record);
    return absl::OkStatus();
  };
  handler.on_out_of_range = [](int32_t) {
    return absl::FailedPreconditionError("the server has deleted updates that were not read yet");
  };
  while (true) {
    MILLRACE_RETURN_IF_ERROR(gradients->Poll(1000, handler).status());
    std::fflush(stdout);
    wakeup.WaitFor(std::chrono::milliseconds(100));
  }
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app("Prints the updates of a job's workers", "job_updates");
  millrace::JobFlags flags(app);
  return millrace::RunProgram(app, "job_updates", argc, argv,
                              [&] { return millrace::PrintUpdates(flags); });
}
