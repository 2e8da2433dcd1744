// Logs for tests of the fold.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/processors/server_fixture.h"
#include "topics/partitioning.h"

namespace millrace {

// Those of a shard among the first twenty ids, ascending.
inline std::vector<EmbeddingId> EmbeddingsOf(const ServerOptions& options) {
  std::vector<EmbeddingId> ids;
  for (EmbeddingId id = 0; id < 20; ++id) {
    if (ShardOfEmbedding(id, options.shards) == options.shard) ids.push_back(id);
  }
  return ids;
}

inline std::vector<EmbeddingId> SomeEmbeddings(std::mt19937& random, const ServerOptions& options) {
  std::vector<EmbeddingId> ids = EmbeddingsOf(options);
  std::erase_if(ids, [&](EmbeddingId) { return random() % 3 > 0; });
  return ids;
}

// Some kinds of records have rows that cannot be used.
inline void Damage(uint64_t kind, const ServerOptions& options, EmbeddingBlock& rows) {
  if (kind == 13) rows.set_value(rows.value_size() - 1, std::nanf(""));
  if (kind == 14) rows.set_value(0, -std::numeric_limits<float>::infinity());
  if (kind == 15) rows.mutable_value()->RemoveLast();
  if (kind != 16 || options.shards == 1) return;
  EmbeddingId id = rows.id(rows.id_size() - 1);
  while (ShardOfEmbedding(id, options.shards) == options.shard) ++id;
  rows.set_id(rows.id_size() - 1, id);
}

inline void AddWanted(EmbeddingId id, Gradient& message) {
  if (message.has_ask()) message.mutable_ask()->add_wanted(id);
  if (message.has_update()) message.mutable_update()->add_wanted(id);
}

// A log as workers, zombies and damage would write it.
inline std::vector<LogRecord> RandomLog(std::mt19937& random, const ServerOptions& options,
                                        int records) {
  std::normal_distribution<float> normal;
  ServerProcessor guide(options, nullptr);  // knows which clocks are due
  std::vector<LogRecord> log;
  while (static_cast<int>(log.size()) < records) {
    const auto worker = static_cast<WorkerId>(random() % options.workers);
    const Clock due = guide.clocks().clock(worker);
    Gradient message = Message(Gradient::kUpdate, worker, due);
    const uint64_t kind = random() % 40;
    if (kind == 0 && log.size() > static_cast<size_t>(records) / 2) {
      message.mutable_leave();
    } else if (kind < 4) {
      message.mutable_ask();
      if (due > 0 && random() % 2 == 0) message.set_clock(due - 1);
    } else {
      if (kind < 10) message.set_clock(due + random() % 3);
      std::vector<float> sum(options.range.size());
      for (float& value : sum) value = normal(random);
      if (kind == 10) sum[0] = std::nanf("");
      EncodeDenseSlice(sum, options.range, *message.mutable_update()->mutable_slice());
      message.mutable_update()->set_row_count(1 + random() % 5);
      message.mutable_update()->set_weight_sum(static_cast<double>(message.update().row_count()));
      message.mutable_update()->set_rows_end(due * 3 + random() % 2);
      message.mutable_update()->set_new_rows(random() % 3);
      message.mutable_update()->set_buffer_rows(static_cast<uint32_t>(random() % 100));
      message.mutable_update()->set_train_loss(normal(random));
      EvaluationSums sums;
      sums.Add(random() % 2, std::vector<float>{0.375f, 0.625f});
      ToProto(sums, *message.mutable_update()->mutable_progressive());
      if (kind % 2 == 0) ToProto(sums, *message.mutable_update()->mutable_tail());
      Moments moments(options.numeric_columns);
      moments.Add({0, std::vector<double>(options.numeric_columns, normal(random)), {}, {}});
      ToProto(moments, *message.mutable_update()->mutable_moments());
      if (kind == 11) message.mutable_update()->add_dead_letters()->set_reason("a damaged row");
      if (options.embeddings) {
        for (EmbeddingId id : SomeEmbeddings(random, options)) {
          message.mutable_update()->mutable_embeddings()->add_id(id);
          for (size_t i = 0; i < options.embeddings->width(); ++i) {
            message.mutable_update()->mutable_embeddings()->add_value(normal(random));
          }
        }
        if (message.update().embeddings().id_size() > 0)
          Damage(kind, options, *message.mutable_update()->mutable_embeddings());
      }
    }
    if (options.embeddings) {
      for (EmbeddingId id : SomeEmbeddings(random, options)) AddWanted(id, message);
    }
    LogRecord record = RecordOf(message);
    if (kind == 12) record.value[record.value.size() / 2] ^= 0x55;
    std::vector<std::string> frames = {record.value};
    if (kind > 30) {
      frames = MakeFrames(message.SerializeAsString(), random(), record.value.size() / 5 + 30);
    }
    if (kind == 39) frames.resize(1);  // the sender died
    for (std::string& frame : frames) {
      log.push_back({record.key, frame});
      ServerOutput ignored;
      EXPECT_TRUE(guide.Process({0, log.back().key, log.back().value}, ignored).ok());
    }
  }
  return log;
}

}  // namespace millrace
