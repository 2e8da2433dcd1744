// A run of Predictor from topic to topic, all but its command line.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "kafka/options.h"
#include "predictor/model_source.h"
#include "predictor/record_scorer.h"
#include "producer/source_format.h"
#include "producer/start_point.h"

namespace millrace {

// Used by one thread.
class TopicRun {
 public:
  struct Options {
    KafkaOptions kafka;
    std::string input;              // the topic whose records are scored
    std::string output;             // the topic that gets a record for each
    std::string errors;             // the topic for records that hold no row; empty: the output
    std::string group;              // empty: predictor.INPUT.OUTPUT
    RecordScorer::Options records;  // `avro` is set by the run
    // Of kAvro: where the schemas are. The run sets the other members.
    SourceFormat::Options schemas;
    StartPoint start;        // of a group that has no positions
    bool until_end = false;  // score what is there now, and return
    bool continue_on_data_loss = false;
    std::chrono::milliseconds linger{50};  // between two transactions, at least
    bool quiet = false;
    // true: commit what was read, return Cancelled. Outlives the run.
    const std::atomic<bool>* stop = nullptr;
  };

  // Checks all that can be checked without a broker, and connects to none. InvalidArgument for
  // settings that make no sense, or columns that do not fit the model. `models` outlives the run;
  // each batch of records is scored by the model that it has then, if the columns fit that one.
  static StatusOr<std::unique_ptr<TopicRun>> Create(const ModelSource& models, Options options);
  virtual ~TopicRun() = default;

  // Waits for a broker, and scores records until it is stopped or, with until_end, has come to the
  // end. A run after an interrupted one continues behind what that one had committed.
  virtual Status Run() = 0;
};

}  // namespace millrace
