// A shard with a log in front of it, for tests.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "processors/server_processor.h"
#include "topics/codec.h"
#include "topics/frame.h"

namespace millrace {

// What stands in `gradients`.
struct LogRecord {
  std::string key;
  std::string value;
};

inline LogRecord RecordOf(const Gradient& message) {
  return {EncodeBigEndian32(message.worker()), MakeFrames(message.SerializeAsString(), 0).front()};
}

inline Gradient Message(Gradient::Kind kind, WorkerId worker, Clock clock) {
  Gradient message;
  message.set_epoch(1);
  message.set_worker(worker);
  message.set_clock(clock);
  message.set_has_clock(true);
  message.set_kind(kind);
  return message;
}

// The sum over `rows` rows of weight 1.
inline Gradient Update(WorkerId worker, Clock clock, const std::vector<float>& sum, KeyRange range,
                       uint64_t rows = 1) {
  Gradient message = Message(Gradient::UPDATE, worker, clock);
  EncodeDenseSlice(sum, range, *message.mutable_slice());
  message.set_row_count(rows);
  message.set_weight_sum(static_cast<double>(rows));
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
  explicit TestServer(const ServerOptions& options) : options_(options), processor_(options) {}

  // Appends the record to the log and folds it in.
  ServerOutput Send(const LogRecord& record) {
    ServerOutput output;
    processor_.Process({next_offset_++, record.key, record.value}, output);
    return output;
  }
  ServerOutput Send(const Gradient& message) { return Send(RecordOf(message)); }

  // An update of the worker's present clock whose every value is `value`.
  ServerOutput SendNext(WorkerId worker, float value = 1) {
    const std::vector<float> sum(options_.range.size(), value);
    return Send(Update(worker, processor_.clocks().clock(worker), sum, options_.range));
  }

  Weights Answer(WorkerId worker) const {
    Weights message;
    message.ParseFromString(processor_.Answer(worker));
    return message;
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
  ServerOptions options_;
  ServerProcessor processor_;
  Offset next_offset_ = 0;
};

}  // namespace millrace
