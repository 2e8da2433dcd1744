#include "master/row_leases.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "job/job_registry.h"
#include "job/kafka_options.h"
#include "job/same_settings.h"
#include "kafka/admin.h"
#include "kafka/timeouts.h"
#include "processors/policy.h"
#include "topics/most_workers.h"
#include "topics/row_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Rows that are here at one tick and at the next are leased without waiting for others.
constexpr milliseconds kCutLookEvery(100);
constexpr milliseconds kTrimEvery(500);
constexpr milliseconds kResizeOrderEvery(500);
constexpr milliseconds kBetweenLooks(100);
constexpr int kLooksUntilSaid = 50;
constexpr size_t kRecordsAtOnce = 256;
// Between two transactions, however fast the rows come.
constexpr size_t kMostRecords = 4096;

}  // namespace

RowLeases::RowLeases(const JobConfig& config, uint64_t lease_rows, Wakeup* wakeup)
    : config_(config),
      lease_rows_(lease_rows),
      wakeup_(wakeup),
      topic_(TopicName(config.name(), Topic::kInputData)),
      order_(config, "master-resize", "to change the workers", kResizeOrderEvery) {
  looks_.Post("settings", [this] {
    StatusOr<Found> found = FindSettings();
    const std::lock_guard lock(mutex_);
    found_ = std::move(found);
    wakeup_->Notify();
  });
}

RowLeases::~RowLeases() {
  ending_ = true;
  looks_.WaitUntilIdle();
}

// In the background: it waits for who creates the topics, for the producer and for a server.
StatusOr<RowLeases::Found> RowLeases::FindSettings() {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobRegistry> registry,
                            JobRegistry::Create(config_, ending_));
  StatusOr<JobFeatures> features = registry->WaitForFeatures();
  for (int looks = 1; absl::IsNotFound(features.status()) && !ending_; ++looks) {
    if (looks % kLooksUntilSaid == 0) {
      spdlog::info(
          "waiting for topic {}, which ServerApp or CsvProducer creates: no rows are leased",
          TopicName(config_.name(), Topic::kJob));
    }
    std::this_thread::sleep_for(kBetweenLooks);
    features = registry->WaitForFeatures();
  }
  MILLRACE_RETURN_IF_ERROR(features.status());
  Found found{.features = *std::move(features)};
  MILLRACE_ASSIGN_OR_RETURN(found.training, registry->WaitForTraining());
  MILLRACE_RETURN_IF_ERROR(
      CheckSameSharding(config_, found.training.training().sharding(), Training::DYNAMIC));
  if (found.features.workers() != config_.workers()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job ", config_.name(), " was begun with --workers ", found.features.workers(),
        ", not ", config_.workers(), ": give that, or start a new job"));
  }
  return found;
}

Status RowLeases::Open(const LeaseTable& table) {
  if (table.inputs().size() != config_.workers()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the plan of the job ", config_.name(), " leases rows of ",
                     table.inputs().size(), " partitions, but --workers is ", config_.workers(),
                     ": give what the job was begun with, or start a new job (another --job)"));
  }
  ConsumerOptions options;
  options.client_id = "master-input";
  options.fetch_wait = kFetchWait;
  options.read_committed = true;  // numbers of rows whose transaction was aborted are given anew
  MILLRACE_ASSIGN_OR_RETURN(
      input_, PartitionConsumer::Create(ToKafkaOptions(config_), options, topic_, wakeup_));
  if (trimmer_ == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<KafkaAdmin> admin,
                              KafkaAdmin::Create(ToKafkaOptions(config_), "master-trim"));
    trimmer_ = std::make_unique<Trimmer>(std::move(admin));
  }
  cutter_.emplace(lease_rows_, RowShapeFrom(settings_->features), table);
  for (const auto& [partition, state] : table.inputs()) {
    if (state.ended()) continue;
    MILLRACE_RETURN_IF_ERROR(
        input_->Assign(static_cast<int32_t>(partition), cutter_->next_offset(partition)));
  }
  next_look_ = steady_clock::now() + kCutLookEvery;
  return absl::OkStatus();
}

bool RowLeases::IsCutAsIn(const LeaseTable& table) const {
  return std::ranges::all_of(table.inputs(), [&](const auto& input) {
    return cutter_->cut_row(input.first) == input.second.cut_row();
  });
}

StatusOr<size_t> RowLeases::Poll() {
  ConsumerHandler handler;
  handler.on_record = [this](const ConsumedRecord& record) {
    return cutter_->Take(static_cast<uint32_t>(record.partition), record.offset, record.key,
                         record.value);
  };
  handler.on_out_of_range = [this](int32_t partition) {
    return absl::DataLossError(absl::StrCat(
        topic_, ", partition ", partition,
        " lacks rows that were never leased: they were deleted, or the topic was deleted and "
        "created anew. Start a new job (another --job)"));
  };
  return input_->Poll(kRecordsAtOnce, handler);
}

StatusOr<std::vector<LeaseCommand>> RowLeases::TakeCommands(const LeaseTable& table) {
  std::vector<LeaseCommand> commands;
  if (!settings_) {
    const std::lock_guard lock(mutex_);
    if (!found_) return commands;
    MILLRACE_ASSIGN_OR_RETURN(settings_, *std::exchange(found_, std::nullopt));
  }
  if (!table.has_begun()) {
    LeaseCommand::Begin& begin = *commands.emplace_back().mutable_begin();
    begin.set_workers(config_.workers());
    begin.set_partitions(config_.workers());
    const Training& training = settings_->training.training();
    begin.set_most_workers(MostWorkers(training, config_.workers()));
    // The job may go over to another number of shards.
    begin.set_open_leases(OpenLeases(kMostShards, PipelineOf(training)));
    return commands;
  }
  if (cutter_ && !IsCutAsIn(table)) {
    spdlog::warn(
        "the plan of the job {} has other cuts of input-data than this MasterApp wrote; MasterApp "
        "continues from the plan. Check that no other program writes to control (docs/security.md)",
        config_.name());
    cutter_.reset();
  }
  if (!cutter_) MILLRACE_RETURN_IF_ERROR(Open(table));
  // Rows that nobody has room for wait in Kafka.
  if (!table.WantsCuts()) return commands;
  const size_t enough = 4 * table.workers().size();
  for (size_t records = 0; records < kMostRecords && commands.size() < enough;) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, Poll());
    std::ranges::move(cutter_->TakeCommands(), std::back_inserter(commands));
    if (events == 0) break;
    records += events;
  }
  if (const Time now = steady_clock::now(); now >= next_look_) {
    next_look_ = now + kCutLookEvery;
    cutter_->Tick();
    std::ranges::move(cutter_->TakeCommands(), std::back_inserter(commands));
  }
  return commands;
}

Status RowLeases::OrderResize(const LeaseTable& table, uint32_t layout) {
  const std::optional<ResizeOrder> resize = table.order();
  std::optional<Gradient> order;
  if (resize) {
    order.emplace().mutable_resize()->set_number(resize->number);
    order->mutable_resize()->set_workers(resize->workers);
  }
  return order_.Tick(layout, std::move(order));
}

void RowLeases::Trim(const LeaseTable& table) {
  const Time now = steady_clock::now();
  if (trimmer_ == nullptr || now < next_trim_) return;
  next_trim_ = now + kTrimEvery;
  for (const auto& [partition, state] : table.inputs()) {
    // The record with the row before stays: a producer that continues finds its end there.
    trimmer_->Trim(topic_, static_cast<int32_t>(partition),
                   std::max<Offset>(table.NeededFrom(partition) - 1, 0));
  }
}

}  // namespace millrace
