// A shard with a log in front of it, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "processors/server_processor.h"
#include "topics/figures_codec.h"
#include "topics/frame.h"
#include "topics/slice_codec.h"

namespace millrace {

// What stands in `gradients`.
struct LogRecord {
  std::string key;
  std::string value;
};

inline LogRecord RecordOf(const Gradient& message) {
  return {EncodeBigEndian32(message.worker()), MakeFrames(message.SerializeAsString(), 0).front()};
}

inline Gradient Message(Gradient::KindCase kind, WorkerId worker, Clock clock) {
  Gradient message;
  message.set_epoch(1);
  message.set_worker(worker);
  message.set_clock(clock);
  if (kind == Gradient::kAsk) message.mutable_ask();
  if (kind == Gradient::kUpdate) message.mutable_update();
  if (kind == Gradient::kLeave) message.mutable_leave();
  if (kind == Gradient::kRestore) message.mutable_restore();
  return message;
}

// The sum over `rows` rows of weight 1.
inline Gradient Update(WorkerId worker, Clock clock, const std::vector<float>& sum, KeyRange range,
                       uint64_t rows = 1) {
  Gradient message = Message(Gradient::kUpdate, worker, clock);
  EncodeDenseSlice(sum, range, *message.mutable_update()->mutable_slice());
  message.mutable_update()->set_row_count(rows);
  message.mutable_update()->set_weight_sum(static_cast<double>(rows));
  return message;
}

// Three workers, two features and a bias in two classes, one numeric column, plain SGD.
inline ServerOptions SmallServer(ConsistencyPolicy policy = ConsistencyPolicy::Sequential()) {
  ServerOptions options;
  options.range = {0, 6};
  options.penalised_end = 4;
  options.workers = 3;
  options.classes = 2;
  options.numeric_columns = 1;
  options.consistency = policy;
  options.optimizer.kind = OptimizerOptions::Kind::kSgd;
  options.optimizer.learning_rate = 0.5;
  return options;
}

class TestServer {
 public:
  explicit TestServer(const ServerOptions& options, const OrderedByteMap* store = nullptr)
      : options_(options), processor_(options, store) {}

  // Appends the record to the log and folds it in.
  ServerOutput Send(const LogRecord& record, int64_t timestamp_ms = 0) {
    ServerOutput output;
    const Status status =
        processor_.Process({next_offset_++, record.key, record.value, timestamp_ms}, output);
    EXPECT_TRUE(status.ok()) << status;
    return output;
  }
  ServerOutput Send(const Gradient& message, int64_t timestamp_ms = 0) {
    return Send(RecordOf(message), timestamp_ms);
  }

  // An update of the worker's present clock whose every value is `value`.
  ServerOutput SendNext(WorkerId worker, float value = 1) {
    const std::vector<float> sum(options_.range.size(), value);
    return Send(Update(worker, processor_.clocks().clock(worker), sum, options_.range));
  }

  Weights Answer(WorkerId worker) const { return Parsed(processor_.Answer(worker)); }
  Weights PreviousAnswer(const ServerOutput::PreviousReceiver& receiver) const {
    return Parsed(processor_.PreviousAnswer(receiver));
  }

  std::vector<float> weights() const {
    const std::span<const float> weights = processor_.shard().weights();
    return {weights.begin(), weights.end()};
  }

  std::string StateBytes() const {
    ShardState state;
    processor_.SaveState(state);
    return state.SerializeAsString();
  }

  ServerProcessor& processor() { return processor_; }
  const ServerProcessor& processor() const { return processor_; }
  const ServerOptions& options() const { return options_; }
  Offset next_offset() const { return next_offset_; }
  void set_next_offset(Offset offset) { next_offset_ = offset; }

 private:
  static Weights Parsed(const StatusOr<MessageBytes>& body) {
    Weights message;
    EXPECT_TRUE(body.ok() && message.ParseFromString(body->Joined())) << body.status();
    return message;
  }

  ServerOptions options_;
  ServerProcessor processor_;
  Offset next_offset_ = 0;
};

inline const ConsistencyPolicy kSequential = ConsistencyPolicy::Sequential();
inline const ConsistencyPolicy kEventual = ConsistencyPolicy::Eventual();
constexpr KeyRange kRange = {0, 6};

inline std::vector<ConsistencyPolicy> AllPolicies() {
  return {kSequential, kEventual, ConsistencyPolicy::Bounded(2)};
}

inline std::vector<float> Same(float value) { return std::vector<float>(kRange.size(), value); }

inline Gradient WithProgressive(Gradient message, uint64_t rows) {
  EvaluationSums sums;
  for (uint64_t row = 0; row < rows; ++row) sums.Add(1, std::vector<float>{0.25f, 0.75f});
  ToProto(sums, *message.mutable_update()->mutable_progressive());
  message.mutable_update()->set_new_rows(rows);
  return message;
}

inline Gradient WithMoments(Gradient message, const std::vector<double>& values) {
  Moments moments(1);
  for (double value : values) moments.Add({0, {value}, {}, {}});
  ToProto(moments, *message.mutable_update()->mutable_moments());
  return message;
}

inline Gradient WithDeadLetter(Gradient message, const std::string& reason) {
  auto& letters = message.has_leave() ? *message.mutable_leave()->mutable_dead_letters()
                                      : *message.mutable_update()->mutable_dead_letters();
  letters.Add()->set_reason(reason);
  return message;
}

}  // namespace millrace
