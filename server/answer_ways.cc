#include "server/answer_ways.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/big_endian.h"
#include "rpc/address.h"
#include "topics/topics.h"

namespace millrace {
namespace {

AnswerOffer OfferOf(const JobConfig& config, ShardId shard, const std::string& address, bool tls) {
  AnswerOffer offer;
  offer.set_epoch(config.epoch());
  offer.set_shard(shard);
  offer.set_address(address);
  offer.set_tls(tls);
  offer.set_layout(config.layout());
  return offer;
}

Status TakeBack(const JobConfig& config, JobRegistry& registry,
                const std::vector<ShardId>& hosted) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<AnswerOffer> offers, registry.ReadAnswerOffers());
  for (const AnswerOffer& offer : offers) {
    const bool is_ours = std::ranges::find(hosted, ShardId(offer.shard())) != hosted.end();
    if (!is_ours || offer.address().empty()) continue;
    MILLRACE_RETURN_IF_ERROR(
        registry.PublishAnswerOffer(OfferOf(config, ShardId(offer.shard()), "", false)));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<AnswerWays>> AnswerWays::Open(const JobConfig& config,
                                                       JobRegistry& registry,
                                                       const std::vector<ShardId>& hosted,
                                                       int32_t shared_partition, Wakeup* wakeup) {
  std::unique_ptr<AnswerWays> ways(new AnswerWays(shared_partition));
  if (config.answers().way() == Answers::DIRECT) {
    MILLRACE_RETURN_IF_ERROR(ways->Serve(config, registry, hosted, wakeup));
  } else {
    MILLRACE_RETURN_IF_ERROR(TakeBack(config, registry, hosted));
  }
  return ways;
}

Status AnswerWays::Serve(const JobConfig& config, JobRegistry& registry,
                         const std::vector<ShardId>& hosted, Wakeup* wakeup) {
  const Answers& answers = config.answers();
  AnswerServerOptions options;
  options.job = LayoutName(config);
  options.epoch = config.epoch();
  options.listen = answers.listen();
  MILLRACE_ASSIGN_OR_RETURN(options.tls,
                            ReadRpcTls(answers.tls_cert(), answers.tls_key(), answers.tls_ca()));
  MILLRACE_ASSIGN_OR_RETURN(server_, AnswerServer::Start(options, wakeup));
  const std::string address =
      AdvertisedAddress(answers.listen(), answers.advertise(), server_->port());
  for (const ShardId shard : hosted) {
    MILLRACE_RETURN_IF_ERROR(
        registry.PublishAnswerOffer(OfferOf(config, shard, address, options.tls.used())));
  }
  spdlog::info("serves answers to workers by gRPC at {}{}", address,
               options.tls.used() ? ", by TLS" : "");
  return absl::OkStatus();
}

std::optional<OutgoingRecord> AnswerWays::Send(OutgoingRecord record) {
  if (!server_ || record.topic != Topic::kWeights) return record;
  std::optional<uint32_t> shared_of;  // a shard
  if (record.partition == shared_partition_) {
    shared_of = DecodeBigEndian32(std::string_view(record.key).substr(0, sizeof(uint32_t)));
  }
  std::optional<OutgoingRecord> to_log = server_->Send(std::move(record));
  if (!shared_of) return to_log;
  if (to_log) {
    unpublished_.erase(ShardId(*shared_of));
  } else {
    unpublished_.insert(ShardId(*shared_of));
  }
  return to_log;
}

void AnswerWays::Advance() {
  if (server_) server_->Advance();
}

std::vector<WorkerId> AnswerWays::TakeLost() {
  return server_ ? server_->TakeLost() : std::vector<WorkerId>();
}

std::set<ShardId> AnswerWays::TakeUnpublished() { return std::exchange(unpublished_, {}); }

}  // namespace millrace
