#include "server/next_layout.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "durability/checkpoints/parameters_tail.h"
#include "durability/checkpoints/shard_store.h"
#include "job/kafka_options.h"
#include "kafka/broker_retry.h"
#include "kafka/consumer.h"
#include "kafka/timeouts.h"
#include "kafka/wakeup.h"
#include "server/hosted_shard.h"
#include "stores/memory_byte_map.h"
#include "tasks/checkpoint.h"
#include "tasks/first_checkpoint.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr std::chrono::seconds kLookEvery(1);

JobConfig ConfigBefore(const JobConfig& config) {
  JobConfig before = config;
  before.set_layout(config.layout() - 1);
  return before;
}

// How many shards the layout before has.
StatusOr<uint32_t> ShardsBefore(const JobConfig& config, JobRegistry& registry) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint32_t> layouts, registry.ReadLayouts());
  if (layouts.size() > config.layout()) return layouts[config.layout() - 1];
  return absl::DataLossError(absl::StrCat("the topic ", TopicName(config, Topic::kJob),
                                          " no longer has the record of how many shards the job "
                                          "had before: restore it, or start a new job "
                                          "(another --job)"));
}

// All that `parameters` has of the shard.
Status ReadShard(const JobConfig& config, ShardId shard, OrderedByteMap& store,
                 const std::atomic<bool>& stop) {
  Wakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ParametersTail> tail,
                            ParametersTail::Create(config, shard, store, &wakeup, stop));
  while (!tail->caught_up()) {
    if (stop) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, tail->Poll([&](CheckpointAssembler::Part part) {
      return store.Write(BatchOf(std::move(part.entries), part.end));
    }));
    if (events == 0) wakeup.WaitFor(kPoll);
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<Checkpoint> ReadSealedLayout(const JobConfig& config, const JobFeatures& features,
                                      const JobTraining& training, const ServerOptions& options,
                                      JobRegistry& registry, const std::atomic<bool>& stop) {
  const JobConfig config_before = ConfigBefore(config);
  JobTraining before = training;
  before.set_layout(config_before.layout());
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t shards, ShardsBefore(config, registry));
  before.set_shards(shards);
  FirstCheckpoint first(options, SnapshotStart::kSameJob);
  const bool has_rows = first.embeddings() != nullptr;
  // What a row has missed follows from the states of all: only then rows can be added.
  for (const bool is_last : {false, true}) {
    for (ShardId shard = 0; shard < shards && (has_rows || !is_last); ++shard) {
      const ServerOptions of = MakeHostedOptions(config_before, features, before, shard);
      MemoryByteMap store;
      MILLRACE_RETURN_IF_ERROR(ReadShard(config_before, shard, store, stop));
      if (!is_last) MILLRACE_RETURN_IF_ERROR(AddSealedState(of, store, first));
      if (is_last || !has_rows) MILLRACE_RETURN_IF_ERROR(AddSealedValues(of, store, first));
    }
  }
  return first.Finish();
}

void RemoveStoresOfLayoutsBefore(const JobConfig& config, const std::vector<uint32_t>& layouts) {
  JobConfig before = config;
  for (uint32_t layout = 0; layout < config.layout() && layout < layouts.size(); ++layout) {
    before.set_layout(layout);
    for (ShardId shard = 0; shard < layouts[layout]; ++shard) {
      Status removed = RemoveShardStores(before, shard);
      if (removed.ok()) removed = RemoveReplicaStore(before, shard);
      if (!removed.ok()) spdlog::warn("layout {}, shard {}: {}", layout, shard, TextOf(removed));
    }
  }
}

void EarlierLayouts::Look() {
  if (is_gone_) return;
  next_look_ = std::chrono::steady_clock::now() + kLookEvery;
  const StatusOr<bool> has_begun = HasEveryShardBegun();
  if (has_begun.ok() && !*has_begun) return;
  std::vector<std::string> topics;
  const Status deleted = has_begun.ok() ? Delete(topics) : has_begun.status();
  is_gone_ = deleted.ok() || absl::IsPermissionDenied(deleted);
  if (deleted.ok() || IsAway(deleted) || std::exchange(is_told_, true)) return;
  spdlog::warn(
      "the topics of the job's earlier shards are not needed any more, and could not be deleted: "
      "{}. Delete {}, and no others",
      TextOf(deleted),
      topics.empty() ? absl::StrCat("those of layouts below ", training_.layout())
                     : absl::StrJoin(topics, ", "));
}

// One record that is committed is enough: a first checkpoint is one transaction.
StatusOr<bool> EarlierLayouts::HasEveryShardBegun() {
  Wakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<PartitionConsumer> parameters,
      PartitionConsumer::Create(ToKafkaOptions(config_),
                                {.client_id = "earlier-layouts", .read_committed = true},
                                TopicName(config_, Topic::kParameters), &wakeup));
  std::optional<bool> has_begun;
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord&) {
    has_begun = true;
    return absl::OkStatus();
  };
  handler.on_end = [&](int32_t, Offset) { has_begun = has_begun.value_or(false); };
  for (ShardId shard = 0; shard < training_.shards(); ++shard) {
    const auto partition = static_cast<int32_t>(shard);
    MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range,
                              parameters->QueryRange(partition, kBrokerCall));
    has_begun.reset();
    MILLRACE_RETURN_IF_ERROR(parameters->Assign(partition, range.begin));
    const Time until = std::chrono::steady_clock::now() + kBrokerCall;
    while (!has_begun && !stop_ && std::chrono::steady_clock::now() < until) {
      MILLRACE_ASSIGN_OR_RETURN(const size_t events, parameters->Poll(1, handler));
      if (events == 0) wakeup.WaitFor(kPoll);
    }
    MILLRACE_RETURN_IF_ERROR(parameters->Unassign(partition));
    if (!has_begun.value_or(false)) return false;
  }
  return true;
}

Status EarlierLayouts::Delete(std::vector<std::string>& topics) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<KafkaAdmin> admin,
                            KafkaAdmin::Create(ToKafkaOptions(config_), "earlier-layouts"));
  std::set<std::string> earlier;
  for (uint32_t layout = 0; layout < training_.layout(); ++layout) {
    for (const Topic topic : {Topic::kGradients, Topic::kWeights, Topic::kParameters}) {
      earlier.insert(TopicName(LayoutName(config_.name(), layout), topic));
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> all, admin->ListTopics());
  std::ranges::copy_if(all, std::back_inserter(topics),
                       [&](const std::string& name) { return earlier.contains(name); });
  if (topics.empty()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(admin->DeleteTopics(topics, kBrokerCall));
  spdlog::info(
      "every shard of layout {} has its first checkpoint: the topics of earlier layouts are "
      "deleted",
      training_.layout());
  return absl::OkStatus();
}

}  // namespace millrace
