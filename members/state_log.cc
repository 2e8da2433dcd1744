#include "members/state_log.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/random_number.h"
#include "durability/checkpoints/parameters_tail.h"
#include "kafka/timeouts.h"
#include "tasks/checkpoint.h"

namespace millrace {
namespace {

// Writing is to take a quarter of the time at most.
constexpr int kRestOfWriting = 3;

}  // namespace

StateLog::StateLog(const JobConfig& config, std::unique_ptr<KafkaCheckpointLog> log, Wakeup* wakeup)
    : interval_(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(config.server().checkpoint_interval_s()))),
      log_(std::move(log)),
      checkpointer_(*log_, copy_, wakeup) {}

StatusOr<std::unique_ptr<StateLog>> StateLog::Open(const JobConfig& config, Wakeup* wakeup,
                                                   const std::atomic<bool>& stop) {
  // Fencing comes first: what is read afterwards, no older process can change.
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<KafkaCheckpointLog> log,
                            KafkaCheckpointLog::Create(config, ShardId(0), stop));
  std::unique_ptr<StateLog> opened(new StateLog(config, std::move(log), wakeup));
  const Status read = opened->Read(config, stop);
  if (absl::IsOutOfRange(read)) {
    return absl::DataLossError(std::string(read.message()) + ". Start this process again");
  }
  MILLRACE_RETURN_IF_ERROR(read);
  return opened;
}

Status StateLog::Read(const JobConfig& config, const std::atomic<bool>& stop) {
  Wakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ParametersTail> tail,
                            ParametersTail::Create(config, ShardId(0), copy_, &wakeup, stop));
  while (!tail->caught_up()) {
    if (stop) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, tail->Poll([&](CheckpointAssembler::Part part) {
      return copy_.Write(BatchOf(std::move(part.entries), part.end));
    }));
    if (events == 0) wakeup.WaitFor(kPoll);
  }
  if (tail->unfinished()) {
    return absl::DataLossError(
        "parameters, partition 0: the last checkpoint is incomplete: records were deleted. Restore "
        "the topic, or start a new job (another --job)");
  }
  MILLRACE_ASSIGN_OR_RETURN(const Offset read, ReadParametersOffset(copy_));
  if (read > 0) return absl::OkStatus();
  return ProposeIncarnation(copy_, RandomNumber());
}

void StateLog::Begin(Checkpoint checkpoint, uint64_t progress, Time now) {
  progress_ = progress;
  begun_ = now;
  checkpointer_.Start(std::move(checkpoint));
}

StatusOr<std::optional<uint64_t>> StateLog::Take(const std::optional<Checkpointer::Result>& result,
                                                 Time now) {
  if (!result) return std::optional<uint64_t>();
  next_ = std::max(begun_ + interval_, now + kRestOfWriting * (now - begun_));
  if (result->status.ok()) {
    MILLRACE_RETURN_IF_ERROR(copy_.Flush());  // it remembers what a crash would put back
    return std::optional<uint64_t>(progress_);
  }
  if (!absl::IsAborted(result->status)) return result->status;
  spdlog::warn("a checkpoint was aborted: {}. Nothing is lost; the next one includes all of it",
               TextOf(result->status));
  return std::optional<uint64_t>();
}

StatusOr<std::optional<uint64_t>> StateLog::Finished(Time now) {
  return Take(checkpointer_.Finished(), now);
}

StatusOr<std::optional<uint64_t>> StateLog::Wait() {
  return Take(checkpointer_.Wait(), std::chrono::steady_clock::now());
}

}  // namespace millrace
