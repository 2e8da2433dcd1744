// The shards of a job with named parameters, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/parameter_handler.h"
#include "stores/memory_byte_map.h"
#include "tests/processors/plain_parameters.h"
#include "tests/processors/server_fixture.h"
#include "topics/parameter_layout.h"
#include "topics/partitioning.h"
#include "topics/table_rows.h"

namespace millrace {

// Another server with the same state, by way of bytes.
inline TestServer RebornWithBlocks(const TestServer& server,
                                   const OrderedByteMap* store = nullptr) {
  ShardState state;
  server.processor().SaveState(state);
  ShardState read;
  EXPECT_TRUE(read.ParseFromString(state.SerializeAsString()));
  TestServer reborn(server.options(), store);
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
      const size_t keys = parameter.is_table ? 0 : parameter.size;
      served.push_back({.keys = {end, end + keys},
                        .handler = MakeParameterHandler(parameter.handler, settings),
                        .row_width = parameter.is_table ? parameter.size : 0});
      end += keys;
    }
    tables_ = TablesOf(served);
    const size_t width = WidestRow(tables_);
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
      if (width > 0) {
        options.embeddings.emplace();
        options.embeddings->initial_limit.assign(width, 0.0f);
        options.embeddings->cache_bytes = 4096;
      }
      stores_.push_back(std::make_unique<MemoryByteMap>());
      servers_.push_back(std::make_unique<TestServer>(options, stores_.back().get()));
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
    CutRows(shard, update, sent);
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
    if (servers_[shard]->processor().embeddings() != nullptr) SaveRows(shard);
    auto reborn =
        std::make_unique<TestServer>(RebornWithBlocks(*servers_[shard], stores_[shard].get()));
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

  // The row of the table that has this number among the parameters.
  std::vector<float> row(uint32_t number, uint64_t id) const {
    const EmbeddingId row = RowOf(number, id);
    const TestServer& server = *servers_[ShardOfEmbedding(row, shards())];
    std::vector<float> values(server.processor().embeddings()->width());
    EXPECT_TRUE(server.processor().ReadEmbeddings({&row, 1}, values).ok());
    values.resize(servers_[0]->options().parameters[number].row_width);
    return values;
  }

  EmbeddingId RowOf(uint32_t number, uint64_t id) const {
    uint32_t table = 0;
    while (tables_.at(table).parameter != number) ++table;
    return RowIn(table, id);
  }

 private:
  void CutRows(uint32_t shard, const PlainUpdate& update, Gradient::Update& sent) const {
    for (const auto& [number, rows] : update.rows) {
      if (!rows.empty()) sent.add_table(number);
      for (const auto& [id, values] : rows) {
        const EmbeddingId row = RowOf(number, id);
        if (ShardOfEmbedding(row, shards()) != shard) continue;
        sent.mutable_embeddings()->add_id(row);
        sent.mutable_embeddings()->mutable_value()->Add(values.begin(), values.end());
      }
    }
  }

  void SaveRows(uint32_t shard) {
    EmbeddingTable& table = *servers_[shard]->processor().embeddings();
    FrozenRows rows = table.FreezeUpdated();
    WriteBatch batch;
    rows.Encode(0, [&](std::string_view key, std::string_view value) {
      batch.Put(std::string(key), std::string(value));
      return true;
    });
    ASSERT_TRUE(stores_[shard]->Write(batch).ok());
    table.Saved(rows);
  }

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

  std::vector<NamedTable> tables_;
  std::vector<std::unique_ptr<MemoryByteMap>> stores_;
  std::vector<std::unique_ptr<TestServer>> servers_;
};

}  // namespace millrace
