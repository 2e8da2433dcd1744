// A worker task, the input that it reads, and a disk, for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "models/softmax_regression.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_task.h"
#include "tasks/worker_task.h"
#include "topics/figures_codec.h"
#include "topics/row_codec.h"
#include "topics/slice_codec.h"

namespace millrace {

inline const RowShape kTaskShape = {.numeric = 1, .features = 4, .classes = 2};

inline Row TaskRow(RowNumber number) {
  return {static_cast<uint32_t>(number * 7 / 3 % 2),
          {static_cast<double>(number * number % 11)},
          {1 + static_cast<uint32_t>(number % 3)},
          {0.5f + static_cast<float>(number % 2)}};
}

// A partition of `input-data` as a producer with crashes, and strangers, leave it.
class InputLog {
 public:
  struct Record {
    std::string key;
    std::string value;
    int64_t timestamp_ms;
  };

  void Add(std::string key, std::string value) {
    now_ += 40;
    records.push_back({std::move(key), std::move(value), now_});
  }
  void AddRow() { AddRecord(rows, 1); }
  void AddRows(RowNumber count) {
    for (; count > 0; --count) AddRow();
  }
  // Rows [first, first + count); they may have come before.
  void AddRecord(RowNumber first, uint32_t count) {
    RowBatchEncoder batch;
    for (RowNumber row = first; row < first + count; ++row) batch.Add(TaskRow(row));
    Add(EncodeInputKey({first, count}), EncodeRows(batch));
    rows = std::max(rows, first + count);
  }
  void AddDamagedRecord(uint32_t count) {
    Add(EncodeInputKey({rows, count}), "damaged " + std::to_string(rows));
    rows += count;
    damaged += count;
  }
  void AddStranger() {
    Add("a stranger", std::to_string(records.size()));
    ++damaged;
  }
  void AddRepeats(uint64_t count) {
    for (RowNumber row(rows - std::min<uint64_t>(count, rows)); row < rows; ++row) {
      Add(EncodeInputKey({row, 1}), EncodeRow(TaskRow(row)));
    }
  }
  void AddEnd() { Add(EncodeInputKey({rows, 0}), EncodeEnd(rows)); }
  void AddAnything(std::mt19937& random, RowNumber until) {
    while (rows < until) {
      switch (random() % 12) {
        case 0:
          AddDamagedRecord(static_cast<uint32_t>(1 + random() % 4));
          break;
        case 1:
          AddStranger();
          break;
        case 2:
          AddRepeats(random() % 6);
          break;
        case 3:
        case 4:
        case 5: {
          const RowNumber back(std::min<uint64_t>(rows, random() % 3));
          AddRecord(rows - uint64_t{back}, static_cast<uint32_t>(1 + random() % 9));
          break;
        }
        default:
          AddRow();
      }
    }
  }

  Offset end() const { return static_cast<Offset>(records.size()); }

  std::vector<Record> records;
  RowNumber rows = 0;
  uint64_t damaged = 0;

 private:
  int64_t now_ = 1'000'000;
};

inline WorkerOptions OnePass(uint32_t batch_rows = 4) {
  WorkerOptions options;
  options.training.set_batch_rows(batch_rows);
  options.numeric_columns = 1;
  return options;
}

inline WorkerOptions Buffered() {
  WorkerOptions options;
  options.training.set_schedule(Training::BUFFER);
  options.numeric_columns = 1;
  options.training.mutable_buffer()->set_min_rows(4);
  options.training.mutable_buffer()->set_max_rows(16);
  options.training.mutable_buffer()->set_coefficient(0.005);
  return options;
}

// A task, the input it reads, and a disk.
class WorkerTaskTest : public ::testing::Test {
 protected:
  void Start(const WorkerOptions& options, const std::optional<InputPosition>& committed = {},
             Offset log_begin = 0) {
    options_ = options;
    task_ = std::make_unique<WorkerTask>(options, kTaskShape, model_, ++attempts_);
    const StatusOr<Offset> offset = task_->StartReading(committed, log_begin, store_.get());
    ASSERT_TRUE(offset.ok()) << offset.status();
    reading_ = *offset;
    task_->Start(out_);
  }

  void Read(Offset count = 1'000'000) {
    for (; count > 0 && reading_ < log_.end(); --count, ++reading_) {
      const InputLog::Record& record = log_.records[static_cast<size_t>(reading_)];
      const Status status =
          task_->ProcessInput({reading_, record.timestamp_ms, record.key, record.value});
      ASSERT_TRUE(status.ok()) << status;
    }
    Advance();
  }
  void Advance() {
    const Status status = task_->Advance(out_);
    ASSERT_TRUE(status.ok()) << status;
  }

  Weights Answer(Clock clock, RowNumber rows_end) const {
    Weights message;
    message.set_epoch(1);
    message.set_clock(clock);
    message.set_released(true);
    message.mutable_rows()->set_end(rows_end);
    std::vector<float> weights;
    for (size_t i = 0; i < 10; ++i) weights.push_back(0.1f * static_cast<float>(i * clock % 7));
    EncodeDenseSlice(weights, {0, 10}, *message.mutable_slice());
    ToProto(Moments(1), *message.mutable_moments());
    return message;
  }
  void Receive(const Weights& message, size_t max_frame_bytes = kMaxFrameBytes) {
    for (const std::string& frame :
         MakeFrames(message.SerializeAsString(), message.clock(), max_frame_bytes)) {
      task_->ProcessWeights(0, EncodeBigEndian32(0) + EncodeBigEndian32(0), frame, out_);
    }
    Advance();
  }

  // What the task has sent since the last call, put together from its frames.
  std::vector<Gradient> Sent() {
    std::vector<Gradient> messages;
    ChunkJoiner joiner;
    for (const OutgoingRecord& record : out_) {
      EXPECT_EQ(record.topic, Topic::kGradients);
      EXPECT_EQ(record.key, EncodeBigEndian32(options_.worker));
      if (const std::optional<std::string> body = *joiner.Add(0, *ParseFrame(record.value))) {
        EXPECT_TRUE(messages.emplace_back().ParseFromString(*body));
      }
    }
    out_.clear();
    return messages;
  }
  Gradient SentUpdate() {
    std::vector<Gradient> messages = Sent();
    std::erase_if(messages, [](const Gradient& m) { return !m.has_update(); });
    EXPECT_THAT(messages, ::testing::SizeIs(1));
    if (messages.empty()) return {};
    messages[0].mutable_update()->clear_attempt();  // says only that it was computed again,
    messages[0].clear_number();                     // as this does
    return messages[0];
  }

  void Save() {
    WriteBatch batch;
    task_->SaveTo(batch);
    ASSERT_TRUE(store_->Write(batch).ok());
  }

  SoftmaxRegression model_{4, 2};
  InputLog log_;
  std::unique_ptr<MemoryByteMap> store_ = std::make_unique<MemoryByteMap>();
  WorkerOptions options_;
  std::unique_ptr<WorkerTask> task_;
  std::vector<OutgoingRecord> out_;
  Offset reading_ = 0;
  uint64_t attempts_ = 0;
};

}  // namespace millrace
