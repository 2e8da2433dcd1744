#include "job/job_registry.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "base/line_sink.h"
#include "base/printable.h"
#include "base/random_number.h"
#include "job/begun_by.h"
#include "job/kafka_options.h"
#include "job/same_settings.h"
#include "job/warning_line.h"
#include "kafka/broker_retry.h"
#include "kafka/consumer.h"
#include "kafka/known_end.h"
#include "kafka/overdue_end.h"
#include "kafka/producer.h"
#include "kafka/timeouts.h"
#include "kafka/wakeup.h"
#include "topics/frame.h"
#include "topics/message_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kFeaturesKey[] = "features";
constexpr char kTrainingKey[] = "training";
constexpr char kEndedKey[] = "ended";
constexpr char kSealedKey[] = "sealed";
constexpr char kRefusedKey[] = "refused";
constexpr char kReplicasKey[] = "replicas";
constexpr char kAnswersKey[] = "answers";
constexpr char kSourceKey[] = "source";          // TopicSource's own (producer/source_log.h)
constexpr char kGenerationKey[] = "generation";  // : and the number, which is all that it says
constexpr seconds kReportEvery = seconds(5);
// Bounds on what is joined: anybody may write to the topic.
constexpr uint32_t kMostChunks = 64;
// A frame's header takes less than a kilobyte.
constexpr size_t kMostPublishedBytes = kMostChunks * (kMaxFrameBytes - 1000);
constexpr uint32_t kMostOffers = 4096;
constexpr size_t kMostWriters = 16;

// Other programs may write to the topic.
Status CheckSealed(const JobSealed& sealed) {
  const bool is_one = sealed.layout() < kMostLayouts && sealed.shard() < kMostShards &&
                      sealed.next_shards() >= 1 && sealed.next_shards() <= kMostShards;
  if (is_one) return absl::OkStatus();
  return absl::InvalidArgumentError("it says that shard " + std::to_string(sealed.shard()) +
                                    " of layout " + std::to_string(sealed.layout()) +
                                    " is sealed, and " + std::to_string(sealed.next_shards()) +
                                    " shards follow, and one of these numbers is out of range");
}

std::string NumberedKey(std::string_view name, uint64_t number) {
  return std::string(name) + ":" + std::to_string(number);
}

// Two may publish at once. The first record of a name counts for everybody; each writer has a key
// of its own, so that compaction never takes the first for the sake of the second.
uint32_t NewWriter() { return static_cast<uint32_t>(RandomNumber()); }

class KafkaJobRegistry final : public JobRegistry {
 public:
  KafkaJobRegistry(const JobConfig& config, const std::atomic<bool>& stop)
      : kafka_(ToKafkaOptions(config)),
        topic_(TopicName(config.name(), Topic::kJob)),
        job_(config.name()),
        is_external_(config.training().model() == Training::EXTERNAL),
        epoch_(config.epoch()),
        broker_retry_(stop, config.broker_timeout_s()),
        stop_(stop) {}

  Status Open() {
    ConsumerOptions options;
    options.client_id = "job-registry";
    MILLRACE_ASSIGN_OR_RETURN(consumer_,
                              PartitionConsumer::Create(kafka_, options, topic_, &wakeup_));
    return absl::OkStatus();
  }

  // The first record of features, of training and of a generation counts, so one that was read is
  // not asked for again.
  StatusOr<std::optional<JobFeatures>> ReadFeatures() override {
    MILLRACE_RETURN_IF_ERROR(ReadToEnd());
    return features_;
  }
  StatusOr<std::optional<JobTraining>> ReadTraining() override {
    MILLRACE_RETURN_IF_ERROR(ReadToEnd());
    return training_;
  }

  int64_t training_published_ms() const override { return training_published_ms_; }

  StatusOr<JobFeatures> WaitForFeatures() override {
    MILLRACE_RETURN_IF_ERROR(Wait(is_external_ ? "its parameters, which its trainers publish"
                                               : "its features, which CsvProducer publishes",
                                  [this] { return features_.has_value(); }));
    return *features_;
  }
  StatusOr<JobTraining> WaitForTraining() override {
    MILLRACE_RETURN_IF_ERROR(Wait("its training settings, which ServerApp publishes",
                                  [this] { return training_.has_value(); }));
    return *training_;
  }

  Status PublishFeatures(const JobFeatures& features) override {
    if (!features_) MILLRACE_RETURN_IF_ERROR(ReadToEnd());
    if (!features_) {
      MILLRACE_ASSIGN_OR_RETURN(const Offset end,
                                Publish(BeginKey(kFeaturesKey, NewWriter()), features));
      MILLRACE_RETURN_IF_ERROR(ReadToEnd(end));
      if (!features_) return Vanished();
    }
    return CheckSameFeatures(*features_, features);
  }
  StatusOr<uint64_t> Generation() override {
    if (!generation_) MILLRACE_RETURN_IF_ERROR(ReadToEnd());
    if (!generation_) {
      const uint64_t number = RandomNumber();
      MILLRACE_ASSIGN_OR_RETURN(const Offset end,
                                PublishBytes(NumberedKey(kGenerationKey, number), ""));
      MILLRACE_RETURN_IF_ERROR(ReadToEnd(end));
      if (!generation_) return Vanished();
    }
    return *generation_;
  }
  StatusOr<uint64_t> WaitForGeneration() override {
    MILLRACE_RETURN_IF_ERROR(Wait("the number of its topics' generation, which ServerApp publishes",
                                  [this] { return generation_.has_value(); }));
    return *generation_;
  }

  StatusOr<std::set<ShardId>> ReadEnded() override {
    MILLRACE_RETURN_IF_ERROR(ReadToEnd());
    return ended_;
  }
  Status PublishEnded(ShardId shard) override {
    JobEnded ended;
    ended.set_epoch(epoch_);
    ended.set_shard(shard);
    return Publish(NumberedKey(kEndedKey, NewWriter()), ended).status();
  }

  StatusOr<std::vector<uint32_t>> ReadLayouts() override {
    MILLRACE_RETURN_IF_ERROR(ReadToEnd());
    return training_ ? LayoutsOf(training_->shards(), sealed_) : std::vector<uint32_t>();
  }
  Status PublishSealed(uint32_t layout, ShardId shard, uint32_t next_shards) override {
    JobSealed sealed;
    sealed.set_epoch(epoch_);
    sealed.set_layout(layout);
    sealed.set_shard(shard);
    sealed.set_next_shards(next_shards);
    const std::string key = NumberedKey(kSealedKey, layout) + "-" + std::to_string(uint32_t{shard});
    return Publish(key, sealed).status();
  }

  const std::optional<Refusal>& refusal() const override { return refusal_; }
  Status PublishRefusal(const std::string& reason) override {
    JobRefused refused;
    refused.set_epoch(epoch_);
    refused.set_reason(reason);
    return Publish(NumberedKey(kRefusedKey, NewWriter()), refused).status();
  }

  StatusOr<std::vector<ReplicaOffer>> ReadOffers() override {
    MILLRACE_RETURN_IF_ERROR(ReadToEnd());
    std::vector<ReplicaOffer> offers;
    for (const auto& [server, offer] : offers_) offers.push_back(offer);
    return offers;
  }
  Status PublishOffer(const ReplicaOffer& offer) override {
    return Publish(NumberedKey(kReplicasKey, offer.server()), offer).status();
  }

  StatusOr<std::vector<AnswerOffer>> ReadAnswerOffers() override {
    MILLRACE_RETURN_IF_ERROR(ReadToEnd());
    std::vector<AnswerOffer> offers;
    for (const auto& [shard, offer] : answer_offers_) offers.push_back(offer);
    return offers;
  }
  Status PublishAnswerOffer(const AnswerOffer& offer) override {
    return Publish(NumberedKey(kAnswersKey, offer.shard()), offer).status();
  }

  Status PublishTraining(const JobTraining& training) override {
    if (!training_) MILLRACE_RETURN_IF_ERROR(ReadToEnd());
    if (!training_) {
      MILLRACE_ASSIGN_OR_RETURN(const Offset end,
                                Publish(BeginKey(kTrainingKey, NewWriter()), training));
      MILLRACE_RETURN_IF_ERROR(ReadToEnd(end));
      if (!training_) return Vanished();
    }
    return CheckSameTraining(*training_, training);
  }

 private:
  Status Vanished() const {
    return absl::DataLossError(topic_ +
                               ": the record that was just published is gone; check whether "
                               "somebody deleted the topic, then start the program again");
  }

  // Returns the end of the topic with the record in it, as PublishBytes does.
  StatusOr<Offset> Publish(const std::string& key, const google::protobuf::MessageLite& message) {
    const StatusOr<std::string> bytes = SerializeMessage(message, kMostPublishedBytes);
    if (absl::IsResourceExhausted(bytes.status())) {
      return absl::InvalidArgumentError(
          "the job's features or settings have " + std::to_string(message.ByteSizeLong()) +
          " bytes, but at most " + std::to_string(kMostPublishedBytes) +
          " can be published: shorten the names of classes and columns");
    }
    MILLRACE_RETURN_IF_ERROR(bytes.status());
    return PublishBytes(key, *bytes);
  }

  StatusOr<Offset> PublishBytes(const std::string& key, const std::string& message) {
    ProducerOptions options;
    options.client_id = "job-registry";
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<KafkaProducer> producer,
                              KafkaProducer::Create(kafka_, options, nullptr));
    MILLRACE_RETURN_IF_ERROR(broker_retry_.Run([&] { return producer->Prepare({topic_}); }));
    const std::vector<std::string> frames = MakeFrames(message, 0);
    for (size_t i = 0; i < frames.size(); ++i) {
      const std::string own_key = i == 0 ? key : key + ":" + std::to_string(i);
      MILLRACE_RETURN_IF_ERROR(producer->Send(topic_, 0, own_key, frames[i]));
    }
    MILLRACE_RETURN_IF_ERROR(broker_retry_.Run([&] { return producer->Flush(kBrokerCall); }));
    const std::vector<FailedDelivery> failures = producer->TakeFailures();
    if (failures.empty()) return producer->DeliveredEnd(topic_, 0);
    return absl::UnavailableError(topic_ + ": publishing failed: " + failures.front().reason);
  }

  // Tells `end` how far it has read.
  Status PollOnce(KnownEnd& end) {
    ConsumerHandler handler;
    handler.on_record = [&](const ConsumedRecord& record) {
      Take(record);
      return absl::OkStatus();
    };
    TellEnd(end, handler);
    handler.on_out_of_range = [&](int32_t) {
      return absl::DataLossError(
          topic_ + ": its records were deleted while they were read; start the program again");
    };
    return consumer_->Poll(1000, handler).status();
  }

  // A record that cannot be used is ignored, with one log line.
  void Take(const ConsumedRecord& record) {
    const Status taken = TakeOne(record);
    if (taken.ok() || record.offset <= last_ignored_) return;
    last_ignored_ = record.offset;
    WarnInALine(absl::StrFormat(
        "%s, offset %d: record ignored: %s. Another program may write to this topic", topic_,
        record.offset, TextOf(taken)));
  }

  Status TakeOne(const ConsumedRecord& record) {
    const std::string_view name = std::string_view(record.key).substr(0, record.key.find(':'));
    if (name == kGenerationKey) return TakeGeneration(std::string_view(record.key));
    if (name == kSourceKey) return absl::OkStatus();
    if (name != kFeaturesKey && name != kTrainingKey && name != kEndedKey && name != kReplicasKey &&
        name != kRefusedKey && name != kAnswersKey && name != kSealedKey) {
      return absl::InvalidArgumentError("its key is not one of Millrace's");
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> body, Join(record));
    if (!body) return absl::OkStatus();  // chunks are missing
    if (name == kFeaturesKey) {
      JobFeatures features;
      MILLRACE_RETURN_IF_ERROR(ParseMessage(*body, features));
      if (features.epoch() == epoch_ && !features_) {
        MILLRACE_RETURN_IF_ERROR(NoteBegin(record.key, features));
        features_ = std::move(features);
      }
    } else if (name == kTrainingKey) {
      JobTraining training;
      MILLRACE_RETURN_IF_ERROR(ParseMessage(*body, training));
      if (training.epoch() == epoch_ && !training_) {
        MILLRACE_RETURN_IF_ERROR(NoteBegin(record.key, training));
        training_ = std::move(training);
        training_published_ms_ = std::max<int64_t>(record.timestamp_ms, 0);
      }
    } else if (name == kRefusedKey) {
      JobRefused refused;
      MILLRACE_RETURN_IF_ERROR(ParseMessage(*body, refused));
      if (refused.epoch() == epoch_) refusal_ = {record.offset, refused.reason()};
    } else if (name == kReplicasKey) {
      ReplicaOffer offer;
      MILLRACE_RETURN_IF_ERROR(ParseMessage(*body, offer));
      MILLRACE_RETURN_IF_ERROR(CheckOffer(offer));
      if (offers_.size() == kMostOffers && !offers_.contains(ShardId(offer.server()))) {
        return absl::ResourceExhaustedError(
            "more servers offer replicas than a job can have servers");
      }
      if (offer.epoch() == epoch_) offers_[ShardId(offer.server())] = std::move(offer);
    } else if (name == kAnswersKey) {
      AnswerOffer offer;
      MILLRACE_RETURN_IF_ERROR(ParseMessage(*body, offer));
      MILLRACE_RETURN_IF_ERROR(CheckOffer(offer));
      if (offer.epoch() == epoch_) answer_offers_[ShardId(offer.shard())] = std::move(offer);
    } else if (name == kSealedKey) {
      JobSealed sealed;
      MILLRACE_RETURN_IF_ERROR(ParseMessage(*body, sealed));
      MILLRACE_RETURN_IF_ERROR(CheckSealed(sealed));
      if (sealed.epoch() == epoch_) {
        sealed_[sealed.layout()].try_emplace(ShardId(sealed.shard()), sealed.next_shards());
      }
    } else {
      JobEnded ended;
      MILLRACE_RETURN_IF_ERROR(ParseMessage(*body, ended));
      if (ended.epoch() == epoch_) ended_.insert(ShardId(ended.shard()));
    }
    return absl::OkStatus();
  }

  // `published`: the first of its name, which counts. InvalidArgument: the key is malformed.
  Status NoteBegin(std::string_view key, const google::protobuf::Message& published) {
    MILLRACE_ASSIGN_OR_RETURN(const uint32_t protocol, ProtocolOfKey(key));
    if (understood_.ok()) understood_ = CheckUnderstood(job_, protocol, published);
    return absl::OkStatus();
  }

  // The first one counts: a later one is of somebody who had not read that yet.
  Status TakeGeneration(std::string_view key) {
    const std::string_view text = key.substr(std::min(key.size(), key.find(':') + 1));
    uint64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || text.empty()) {
      return absl::InvalidArgumentError("its number of the job's generation is malformed");
    }
    if (!generation_) generation_ = number;
    return absl::OkStatus();
  }

  // The message when the record completes it; empty when chunks of it are missing. Each writer has
  // a key of its own, to which the numbers of further chunks are appended.
  StatusOr<std::optional<std::string>> Join(const ConsumedRecord& record) {
    MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(record.value));
    if (frame.count > kMostChunks) {
      return absl::InvalidArgumentError("it is one of " + std::to_string(frame.count) +
                                        " chunks, but at most " + std::to_string(kMostChunks) +
                                        " are allowed");
    }
    if (!frame.is_chunk) return std::string(frame.body);
    const std::string_view key(record.key);
    const size_t name_end = key.find(':');
    const std::string writer(key.substr(0, key.find(':', name_end + 1)));
    if (!joiners_.contains(writer) && joiners_.size() == kMostWriters) {
      joiners_.erase(joiners_.begin());
    }
    return joiners_[writer].Add(0, frame);
  }

  // Reads the topic from its beginning. What does so stops again: a registry is kept for hours to
  // be asked once, and a reader at the end of its topic costs the broker a hundred requests a
  // second.
  StatusOr<Offset> Start() {
    MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range, broker_retry_.Run([this] {
      return consumer_->QueryRange(0, kBrokerCall);
    }));
    joiners_.clear();
    MILLRACE_RETURN_IF_ERROR(consumer_->Assign(0, range.begin));
    return range.end;
  }
  void Stop() { (void)consumer_->Unassign(0); }

  // The end as it was when the call began, and `least`, what this process has appended. (Where
  // records of before are gone, it ends there.)
  Status ReadToEnd(Offset least = 0) {
    MILLRACE_ASSIGN_OR_RETURN(const Offset told, Start());
    const absl::Cleanup stop = [this] { Stop(); };
    KnownEnd end(std::max(told, least));
    while (true) {
      if (stop_) return absl::CancelledError("stopped");
      MILLRACE_RETURN_IF_ERROR(PollOnce(end));
      if (end.is_reached()) return understood_;
      if (!CheckOverdueEnd(end, *consumer_, topic_, 0).ok()) return understood_;
      wakeup_.WaitFor(kPoll);
    }
  }

  Status Wait(const std::string& what, const std::function<bool()>& ready) {
    MILLRACE_RETURN_IF_ERROR(understood_);
    if (ready()) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(const Offset told, Start());
    const absl::Cleanup stop = [this] { Stop(); };
    KnownEnd end(told);
    const auto begin = std::chrono::steady_clock::now();
    auto next_report = begin + kReportEvery;
    while (!ready()) {
      if (stop_) return absl::CancelledError("stopped");
      MILLRACE_RETURN_IF_ERROR(PollOnce(end));
      MILLRACE_RETURN_IF_ERROR(understood_);
      if (ready()) break;
      wakeup_.WaitFor(kPoll);
      const auto now = std::chrono::steady_clock::now();
      if (now < next_report) continue;
      next_report = now + kReportEvery;
      const std::string line =
          absl::StrFormat("job %s: waiting for %s (%d s)", job_, what,
                          std::chrono::duration_cast<seconds>(now - begin).count());
      if (!GiveToLineSink(line)) std::fprintf(stderr, "%s\n", line.c_str());
    }
    return absl::OkStatus();
  }

  KafkaOptions kafka_;
  std::string topic_;
  std::string job_;
  bool is_external_;  // its parameters are those of a trainer of one's own
  uint64_t epoch_;
  BrokerRetry broker_retry_;
  const std::atomic<bool>& stop_;
  Wakeup wakeup_;
  std::unique_ptr<PartitionConsumer> consumer_;
  std::optional<JobFeatures> features_;
  std::optional<JobTraining> training_;
  Status understood_;  // whether this program understands them
  int64_t training_published_ms_ = 0;
  std::optional<uint64_t> generation_;
  std::set<ShardId> ended_;
  SealedShards sealed_;
  std::optional<Refusal> refusal_;
  std::map<ShardId, ReplicaOffer> offers_;  // by server
  std::map<ShardId, AnswerOffer> answer_offers_;
  std::map<std::string, ChunkJoiner> joiners_;  // by writer
  Offset last_ignored_ = -1;
};

}  // namespace

StatusOr<std::unique_ptr<JobRegistry>> JobRegistry::Create(const JobConfig& config,
                                                           const std::atomic<bool>& stop) {
  auto registry = std::make_unique<KafkaJobRegistry>(config, stop);
  MILLRACE_RETURN_IF_ERROR(registry->Open());
  return std::unique_ptr<JobRegistry>(std::move(registry));
}

namespace {

Status CheckAddress(const std::string& address, std::string_view of) {
  constexpr size_t kMostAddress = 261;  // a name of the DNS, a colon, a port
  const size_t colon = address.rfind(':');
  const auto is_host = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == '[' || c == ']' ||
           c == ':';
  };
  uint32_t port = 0;
  bool is_valid = colon != std::string::npos && colon > 0 && address.size() <= kMostAddress &&
                  std::ranges::all_of(address, is_host);
  if (is_valid) {
    const char* const end = address.data() + address.size();
    const auto parsed = std::from_chars(address.data() + colon + 1, end, port);
    is_valid = parsed.ec == std::errc() && parsed.ptr == end && port > 0 && port < 65536;
    // Colons are for addresses of IPv6, which stand in brackets.
    const std::string host = address.substr(0, colon);
    is_valid &= host.find(':') == std::string::npos || (host.front() == '[' && host.back() == ']');
  }
  if (is_valid) return absl::OkStatus();
  return absl::InvalidArgumentError("an offer of " + std::string(of) + " at " + Printable(address) +
                                    ", which is not HOST:PORT");
}

}  // namespace

Status CheckOffer(const AnswerOffer& offer) {
  if (offer.shard() >= kMostShards) {
    return absl::InvalidArgumentError("an offer of straight answers of shard " +
                                      std::to_string(offer.shard()) + ", which no job has");
  }
  return offer.address().empty() ? absl::OkStatus()
                                 : CheckAddress(offer.address(), "straight answers");
}

Status CheckOffer(const ReplicaOffer& offer) {
  MILLRACE_RETURN_IF_ERROR(CheckAddress(offer.address(), "replicas"));
  if (static_cast<uint32_t>(offer.shard_size()) <= kMostOffers) return absl::OkStatus();
  return absl::InvalidArgumentError("an offer of replicas of " +
                                    std::to_string(offer.shard_size()) + " shards");
}

std::vector<uint32_t> LayoutsOf(uint32_t first_shards, const SealedShards& sealed) {
  std::vector<uint32_t> layouts = {first_shards};
  for (uint32_t layout = 0;; ++layout) {
    const auto said = sealed.find(layout);
    if (said == sealed.end()) return layouts;
    std::set<uint32_t> next;
    for (ShardId shard = 0; shard < layouts.back(); ++shard) {
      const auto found = said->second.find(shard);
      if (found == said->second.end()) return layouts;
      next.insert(found->second);
    }
    if (next.size() != 1) return layouts;
    layouts.push_back(*next.begin());
  }
}

StatusOr<std::vector<uint32_t>> FollowLayout(JobRegistry& registry, JobConfig& config,
                                             JobTraining& training) {
  MILLRACE_ASSIGN_OR_RETURN(std::vector<uint32_t> layouts, registry.ReadLayouts());
  if (layouts.empty()) return layouts;
  const auto layout = static_cast<uint32_t>(layouts.size() - 1);
  config.set_layout(layout);
  training.set_layout(layout);
  training.set_shards(layouts.back());
  return layouts;
}

bool EveryShardEnded(const std::set<ShardId>& ended, uint32_t shards) {
  for (ShardId shard = 0; shard < shards; ++shard) {
    if (!ended.contains(shard)) return false;
  }
  return true;
}

}  // namespace millrace
