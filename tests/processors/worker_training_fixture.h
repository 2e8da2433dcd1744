// A worker with its rows, and a server played by the test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "models/softmax_regression.h"
#include "processors/input_data_processor.h"
#include "processors/one_pass_batches.h"
#include "processors/worker_training_processor.h"
#include "topics/figures_codec.h"
#include "topics/partitioning.h"
#include "topics/row_codec.h"
#include "topics/slice_codec.h"

namespace millrace {

// One numeric column, three hashed features and a bias in two classes: ten parameters.
inline const RowShape kWorkerShape = {.numeric = 1, .features = 4, .classes = 2};
constexpr size_t kParameters = 10;

inline Row WorkerRow(RowNumber number) {
  return {static_cast<uint32_t>(number * 7 / 3 % 2),
          {static_cast<double>(number * number % 11)},
          {1 + static_cast<uint32_t>(number % 3)},
          {0.5f + static_cast<float>(number % 2)}};
}

inline std::vector<float> SomeWeights(Clock clock) {
  std::vector<float> weights;
  for (size_t i = 0; i < kParameters; ++i) {
    weights.push_back(0.125f * static_cast<float>((i * 5 + clock * 3) % 9) - 0.5f);
  }
  return weights;
}

// The mean-free softmax of a row, written down plainly and in doubles.
inline std::vector<double> Probabilities(const Row& row, const std::vector<float>& weights,
                                         double scaled) {
  std::vector<double> logits(2);
  for (size_t k = 0; k < 2; ++k) {
    logits[k] = weights[k] * scaled + weights[8 + k];
    for (size_t i = 0; i < row.index.size(); ++i) {
      logits[k] += static_cast<double>(weights[row.index[i] * 2 + k]) * row.value[i];
    }
  }
  const double sum = std::exp(logits[0]) + std::exp(logits[1]);
  return {std::exp(logits[0]) / sum, std::exp(logits[1]) / sum};
}

struct Reference {
  std::vector<double> gradient = std::vector<double>(kParameters);
  double loss = 0;
};

// Sums over the rows; the numeric column is used as it is.
inline Reference ReferenceOf(const std::vector<RowNumber>& numbers,
                             const std::vector<float>& weights) {
  Reference reference;
  for (RowNumber number : numbers) {
    const Row row = WorkerRow(number);
    const std::vector<double> p = Probabilities(row, weights, row.numeric[0]);
    reference.loss -= std::log(p[row.label]);
    for (size_t k = 0; k < 2; ++k) {
      const double residual = p[k] - (row.label == k ? 1 : 0);
      reference.gradient[k] += residual * row.numeric[0];
      reference.gradient[8 + k] += residual;
      for (size_t i = 0; i < row.index.size(); ++i) {
        reference.gradient[row.index[i] * 2 + k] += residual * row.value[i];
      }
    }
  }
  return reference;
}

inline std::vector<float> DenseValues(const Slice& slice) {
  std::vector<float> values(slice.end() - slice.begin());
  AddSlice(slice, 1.0f, values);
  return values;
}

// A worker, its rows, and a server played by the test.
class TrainingWorker {
 public:
  explicit TrainingWorker(const WorkerOptions& options, size_t batch_rows = 4,
                          RowNumber first_row = 0)
      : options_(options),
        source_({.batch_rows = batch_rows}),
        input_(options.worker, kWorkerShape, source_, first_row),
        next_row_(first_row),
        training_(options, model_, source_, 1000) {}

  static WorkerOptions Options() {
    WorkerOptions options;
    options.training.set_scaling(Training::NONE);
    options.numeric_columns = 1;
    return options;
  }

  void AddRows(RowNumber count) {
    for (; count > 0; --count) {
      Input(EncodeInputKey({next_row_, 1}), EncodeRow(WorkerRow(next_row_)));
      ++next_row_;
    }
  }
  // Rows of a later epoch.
  void AddRowsAgain(RowNumber count) {
    for (; count > 0; --count) {
      Row row = WorkerRow(next_row_);
      row.replayed = true;
      Input(EncodeInputKey({next_row_, 1}), EncodeRow(row));
      ++next_row_;
    }
  }
  void AddDamagedRow() { Input(EncodeInputKey({next_row_++, 1}), "damaged"); }
  void AddStranger() { Input("a stranger", ""); }
  void End() { Input(EncodeInputKey({next_row_, 0}), EncodeEnd(next_row_)); }

  Weights Answer(Clock clock, ShardId shard = 0) const {
    Weights message;
    message.set_epoch(options_.epoch);
    message.set_shard(shard);
    message.set_clock(clock);
    message.set_released(true);
    const KeyRange range = RangeOfShard(shard, options_.shards, kParameters);
    const std::vector<float> weights = SomeWeights(clock);
    EncodeDenseSlice(std::span(weights).subspan(range.begin, range.size()), range,
                     *message.mutable_slice());
    if (shard == 0) ToProto(Moments(1), *message.mutable_moments());
    message.mutable_rows()->set_end(std::min<uint64_t>(clock * kBatchRows, next_row_));
    return message;
  }
  // That so many rows have been counted, which may be made up.
  static Weights Counting(uint64_t rows_end, Weights message) {
    message.mutable_rows()->set_end(rows_end);
    return message;
  }
  static Weights To(const Gradient& asked, Weights message) {
    message.set_answers_to(asked.number());
    return message;
  }
  static Weights Held(Weights message) {
    message.set_released(false);
    message.clear_slice();
    message.clear_moments();
    return message;
  }
  static Weights PreviousReceiver(Weights message) {
    message.set_previous_round(true);
    return message;
  }
  static Weights Left(Weights message) {
    message.set_left(true);
    message.clear_slice();
    message.clear_moments();
    return message;
  }

  Status Receive(const Weights& message) {
    return training_.ProcessWeights(message.SerializeAsString());
  }

  // The messages that TryTrain leads to.
  std::vector<Gradient> Train() {
    output_.Clear();
    const Status status = training_.TryTrain(output_);
    EXPECT_TRUE(status.ok()) << status;
    return Messages();
  }
  std::vector<Gradient> ReceiveAndTrain(const Weights& message) {
    const Status status = Receive(message);
    EXPECT_TRUE(status.ok()) << status;
    return Train();
  }
  // The one update of this clock's answer.
  Gradient UpdateOf(Clock clock) {
    const std::vector<Gradient> messages = ReceiveAndTrain(Answer(clock));
    EXPECT_THAT(messages, ::testing::SizeIs(1));
    if (messages.size() != 1) return {};
    EXPECT_EQ(messages[0].kind_case(), Gradient::kUpdate);
    EXPECT_EQ(messages[0].clock(), clock);
    return messages[0];
  }
  std::vector<Gradient> Repeat() {
    output_.Clear();
    training_.Repeat(output_);
    return Messages();
  }
  std::vector<Gradient> Start() {
    output_.Clear();
    training_.Start(output_);
    return Messages();
  }

  const WorkerOutput& output() const { return output_; }
  WorkerTrainingProcessor& training() { return training_; }
  InputDataProcessor& input() { return input_; }
  const BatchSource& source() const { return source_; }
  const Model& model() const { return model_; }
  std::vector<ShardId> receivers() const {
    std::vector<ShardId> shards;
    for (const WorkerMessage& message : output_.messages) shards.push_back(message.shard);
    return shards;
  }

 private:
  void Input(const std::string& key, const std::string& value) {
    const Status status = input_.Process({offset_++, 0, key, value});
    EXPECT_TRUE(status.ok()) << status;
  }
  std::vector<Gradient> Messages() const {
    std::vector<Gradient> messages;
    for (const WorkerMessage& message : output_.messages) {
      EXPECT_TRUE(messages.emplace_back().ParseFromString(message.body->Joined()));
    }
    return messages;
  }

  static constexpr RowNumber kBatchRows = 4;
  WorkerOptions options_;
  SoftmaxRegression model_{4, 2};
  OnePassBatches source_;
  InputDataProcessor input_;
  RowNumber next_row_;
  Offset offset_ = 0;
  WorkerTrainingProcessor training_;
  WorkerOutput output_;
};

}  // namespace millrace
