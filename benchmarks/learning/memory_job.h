// A whole job in one process, without Kafka: the tasks of the product and their records, which are
// passed on in memory.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/model.h"
#include "models/row.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_feed.h"
#include "tasks/shard_task.h"
#include "tasks/shared_weights_reader.h"
#include "tasks/worker_task.h"
#include "topics/outgoing_record.h"
#include "topics/partitioning.h"
#include "topics/row_batch.h"
#include "topics/row_codec.h"

namespace millrace {

// The rows of a stream as the records of input-data that CsvProducer would send: by partition, in
// order, as many rows in each as it takes. Not thread-safe.
class MemoryRows {
 public:
  struct Record {
    InputKey key;
    std::string value;
  };

  // Partitions for all `workers` of the job.
  MemoryRows(const Dealing& dealing, uint32_t workers) : dealing_(dealing), partitions_(workers) {}

  // The next row of the stream.
  void Add(const Row& row);
  // After the last row.
  void Finish();

  uint64_t rows() const { return rows_; }
  const std::vector<Record>& records(WorkerId worker) const { return partitions_[worker].records; }

 private:
  struct Partition {
    RowBatchEncoder batch;
    RowNumber end = 0;  // the number after its last row
    std::vector<Record> records;
  };
  void Close(Partition& partition);

  Dealing dealing_;
  std::vector<Partition> partitions_;
  uint64_t rows_ = 0;
};

// All workers of a job and its one shard, in turns: each worker that can computes an update, in the
// order of the workers; then the shard folds what was sent, and answers. A sequential job ends so
// in the bytes of the same job on Kafka, on any number of shards. Not thread-safe.
class MemoryJob {
 public:
  // REQUIRES CheckJob(features, training); one shard; as many workers as `rows` has partitions. All
  // outlive the job.
  MemoryJob(const JobFeatures& features, const JobTraining& training, const MemoryRows& rows);

  // Until all workers have left. Internal: nobody has anything left to do before that; other errors
  // are the tasks'.
  Status Run();

  // The shard's state.
  const ServerProcessor& processor() const { return shard_.processor(); }

 private:
  struct Worker {
    std::unique_ptr<WorkerTask> task;
    const std::vector<MemoryRows::Record>* rows = nullptr;
    size_t next_row = 0;                   // in *rows
    std::deque<OutgoingRecord> weights{};  // to be read
  };

  Status Start();
  static bool HasRowsFor(const Worker& worker);
  // Returns whether it did anything, or can do something next.
  StatusOr<bool> Advance(Worker& worker);
  StatusOr<bool> AdvanceShard();
  Status TakeWeights(Worker& worker);
  // Takes what the shard has said.
  Status Deliver(OutgoingRecord record);

  const uint32_t workers_count_;
  const std::unique_ptr<Model> model_;
  MemoryByteMap store_;  // stays empty
  ShardTask shard_;
  ShardFeed shard_feed_{shard_};
  SharedWeightsReader shared_;
  std::vector<Worker> workers_;
  std::vector<OutgoingRecord> gradients_;  // not yet folded
  std::vector<OutgoingRecord> out_;        // scratch
  Offset gradients_end_ = 0;
  Offset weights_end_ = 0;
};

}  // namespace millrace
