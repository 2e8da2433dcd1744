// The shards of a job with named parameters, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/parameter_handler.h"
#include "tests/processors/plain_parameters.h"
#include "tests/processors/server_fixture.h"
#include "topics/parameter_layout.h"
#include "topics/partitioning.h"

namespace millrace {

// Another server with the same state, by way of bytes.
inline TestServer RebornWithBlocks(const TestServer& server) {
  ShardState state;
  server.processor().SaveState(state);
  ShardState read;
  EXPECT_TRUE(read.ParseFromString(state.SerializeAsString()));
  TestServer reborn(server.options());
  EXPECT_TRUE(reborn.processor().LoadState(read).ok());
  const ParameterShard& shard = server.processor().shard();
  for (size_t block = 0; block < shard.block_count(); ++block) {
    const ParameterShard::Encoded bytes = shard.EncodeBlock(block);
    EXPECT_TRUE(reborn.processor().mutable_shard().LoadBlock(bytes.key, bytes.value).ok());
  }
  reborn.set_next_offset(server.next_offset());
  return reborn;
}

class ParameterJob {
 public:
  ParameterJob(std::vector<PlainParameters::Parameter> parameters, uint32_t shards,
               uint32_t workers, ConsistencyPolicy policy, size_t pipeline = 1) {
    uint64_t end = 0;
    std::vector<ServedParameter> served;
    for (const PlainParameters::Parameter& parameter : parameters) {
      HandlerSettings settings;
      settings.optimizer.learning_rate = double{parameter.rate};
      settings.l2 = double{parameter.l2};
      served.push_back(
          {{end, end + parameter.size}, MakeParameterHandler(parameter.handler, settings)});
      end += parameter.size;
    }
    for (uint32_t shard = 0; shard < shards; ++shard) {
      ServerOptions options;
      options.shard = ShardId(shard);
      options.shards = shards;
      options.workers = workers;
      options.classes = 0;
      options.consistency = policy;
      options.pipeline = pipeline;
      options.range = RangeOfShard(ShardId(shard), shards, end);
      options.parameters = served;
      servers_.push_back(std::make_unique<TestServer>(options));
    }
  }

  // The shard's part of an update.
  Gradient PartOfUpdate(uint32_t shard, WorkerId worker, Clock clock,
                        const PlainUpdate& update) const {
    Gradient message = Message(Gradient::kUpdate, worker, clock);
    Gradient::Update& sent = *message.mutable_update();
    Cut(shard, update.put, *sent.mutable_put());
    Cut(shard, update.part, *sent.mutable_part());
    sent.set_weight_sum(update.weight);
    return message;
  }
  // To all shards.
  void Send(WorkerId worker, Clock clock, const PlainUpdate& update) {
    for (uint32_t shard = 0; shard < servers_.size(); ++shard) {
      servers_[shard]->Send(PartOfUpdate(shard, worker, clock, update));
    }
  }

  TestServer& server(uint32_t shard) { return *servers_[shard]; }
  uint32_t shards() const { return static_cast<uint32_t>(servers_.size()); }
  void Restart(uint32_t shard) {
    auto reborn = std::make_unique<TestServer>(RebornWithBlocks(*servers_[shard]));
    ASSERT_EQ(reborn->StateBytes(), servers_[shard]->StateBytes());
    servers_[shard] = std::move(reborn);
  }

  std::vector<float> values() const {
    std::vector<float> all;
    for (const auto& server : servers_) {
      const std::vector<float> part = server->weights();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

 private:
  void Cut(uint32_t shard, const std::map<uint32_t, std::vector<float>>& values,
           google::protobuf::RepeatedPtrField<ParameterPart>& parts) const {
    const ServerOptions& options = servers_[shard]->options();
    for (const auto& [number, all] : values) {
      const KeyRange keys = options.parameters.at(number).keys;
      const KeyRange part = PartOf(keys, options.range);
      if (part.size() == 0) continue;
      ParameterPart& sent = *parts.Add();
      sent.set_parameter(number);
      for (uint64_t key = part.begin; key < part.end; ++key) sent.add_value(all[key - keys.begin]);
    }
  }

  std::vector<std::unique_ptr<TestServer>> servers_;
};

}  // namespace millrace
