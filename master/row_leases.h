// What a master does for leases of rows beside its fold: it looks where input-data can be cut, and
// deletes what nobody needs any more.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/background_worker.h"
#include "base/status.h"
#include "job/trimmer.h"
#include "kafka/consumer.h"
#include "kafka/wakeup.h"
#include "master/repeated_order.h"
#include "messages/job.pb.h"
#include "messages/leases.pb.h"
#include "messages/records.pb.h"
#include "processors/input_cutter.h"
#include "processors/lease_table.h"

namespace millrace {

// Used by one thread.
class RowLeases {
 public:
  // Begins to look for the job's features and settings. `lease_rows`: as InputCutter's. `wakeup`,
  // which is notified of rows, and `config` outlive it.
  RowLeases(const JobConfig& config, uint64_t lease_rows, Wakeup* wakeup);
  ~RowLeases();

  // What was said before may not be in the table of the next TakeCommands, and never come there.
  void BeginAgain() { cutter_.reset(); }
  // What is to be said to the table, in this order. Reads on only while the table wants it.
  // REQUIRES that all that was taken is in the table. FailedPrecondition with the remedy: the job
  // is none that leases rows, or of another number of workers. DataLoss: rows are missing. Others
  // are those of JobRegistry and PartitionConsumer.
  StatusOr<std::vector<LeaseCommand>> TakeCommands(const LeaseTable& table);
  // Tells shard 0 how many workers the job is to have, now and then, as long as it has not said
  // that it is done. `layout`: of the shards. REQUIRES that `plan` has the table. Errors are
  // RepeatedOrder::Tick's.
  Status OrderResize(const LeaseTable& table, uint32_t layout);
  // Deletes, in the background and now and then, what nobody needs. REQUIRES that `plan` has the
  // table.
  void Trim(const LeaseTable& table);

 private:
  using Time = std::chrono::steady_clock::time_point;

  struct Found {
    JobFeatures features{};
    JobTraining training{};
  };

  StatusOr<Found> FindSettings();
  Status Open(const LeaseTable& table);
  // Whether the table has taken the cutter's last cuts, and no others.
  bool IsCutAsIn(const LeaseTable& table) const;
  StatusOr<size_t> Poll();

  const JobConfig& config_;
  const uint64_t lease_rows_;
  Wakeup* const wakeup_;
  const std::string topic_;
  std::optional<Found> settings_;
  std::unique_ptr<PartitionConsumer> input_;
  std::optional<InputCutter> cutter_;
  Time next_look_;
  std::unique_ptr<Trimmer> trimmer_;
  Time next_trim_;
  RepeatedOrder order_;

  std::atomic<bool> ending_ = false;
  std::mutex mutex_;
  std::optional<StatusOr<Found>> found_;  // guarded by mutex_
  BackgroundWorker looks_;                // last: it uses all of the above
};

}  // namespace millrace
