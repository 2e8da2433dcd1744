// Counts what workers send: the records of a job's first `gradients` partition and their bytes, as
// they come. Prints a line "RECORDS BYTES" whenever there are more. Ends when it is killed, or when
// the server deletes faster than it reads (give the server a long --checkpoint-interval).
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>

#include "apps/job_flags.h"
#include "apps/program.h"
#include "job/kafka_options.h"
#include "kafka/consumer.h"
#include "topics/topics.h"

namespace millrace {
namespace {

Status CountGradients(const JobFlags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const JobConfig config, flags.Load());
  Wakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<PartitionConsumer> gradients,
      PartitionConsumer::Create(ToKafkaOptions(config), {.client_id = "gradient-bytes"},
                                TopicName(config, Topic::kGradients), &wakeup));
  MILLRACE_RETURN_IF_ERROR(gradients->Assign(0, 0));
  unsigned long long records = 0;
  unsigned long long bytes = 0;
  bool deleted = false;
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    ++records;
    bytes += record.key.size() + record.value.size();
    return absl::OkStatus();
  };
  handler.on_out_of_range = [&](int32_t) {
    deleted = true;
    return absl::OkStatus();
  };
  while (!deleted) {
    const unsigned long long before = records;
    MILLRACE_RETURN_IF_ERROR(gradients->Poll(100'000, handler).status());
    if (records > before) {
      std::printf("%llu %llu\n", records, bytes);
      std::fflush(stdout);
    }
    wakeup.WaitFor(std::chrono::milliseconds(100));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app("Counts the bytes of a job's gradients", "gradient_bytes");
  millrace::JobFlags flags(app);
  return millrace::RunProgram(app, "gradient_bytes", argc, argv,
                              [&] { return millrace::CountGradients(flags); });
}
