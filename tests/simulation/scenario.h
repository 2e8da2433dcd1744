// A job to be run: its options, and its rows as a function of its number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/types.h"
#include "messages/parameters.pb.h"
#include "messages/training.pb.h"
#include "models/model.h"
#include "models/row.h"
#include "processors/server_processor.h"
#include "processors/worker_training_processor.h"
#include "tests/simulation/random.h"
#include "topics/frame.h"
#include "topics/message_codec.h"
#include "topics/row_codec.h"

namespace millrace::simulation {

inline constexpr uint64_t kEpoch = 7;
// Jobs are short, and so are the windows of their figures.
inline constexpr uint64_t kFewestWindowRows = 3;
// As fast as the few rows of most runs need it (DriftDetector::Pace).
inline constexpr uint64_t kDriftBlockRows = 2;
inline constexpr uint64_t kFirstDriftBlocks = 4;

struct StoredSnapshot;

struct Scenario {
  uint64_t data_seed = 1;
  uint32_t workers = 2;
  uint32_t first_workers = 0;  // of a job whose workers change: from the beginning; else 0
  uint32_t shards = 1;
  uint32_t replicas = 0;  // of each shard, beside its own disk
  size_t classes = 2;
  bool regression = false;  // a number is estimated; there are no classes then
  size_t numeric = 1;       // columns; the first holds the row's own number, which tells rows apart
  size_t hashed = 3;
  size_t ids = 0;                          // id columns; with some of them no model is linear
  bool direct = false;                     // answers go straight, where there is a pipe
  bool wide = false;                       // the hashed features' weights are embedding rows
  bool batches_grow = false;               // of a job in one pass that averages nothing
  bool flushes = false;                    // stand between the rows in input-data
  uint32_t rows_per_turn = 1;              // that go to one worker after another,
  uint32_t most_rows_per_turn = 0;         // and later in the stream
  uint32_t dealt_workers = 0;              // only so many workers have rows; 0: all
  std::vector<RowNumber> rows = {12, 12};  // by worker; of trainers of one's own: steps
  double undecodable = 0;                  // part of the rows
  Training training;
  std::vector<NamedParameter> parameters;  // of trainers of one's own; none: a model of ours
  size_t max_frame_bytes = kMaxFrameBytes;
  size_t most_message_bytes = kMostMessageBytes;  // of a piece of the saved state
  bool evaluate_batches = false;
  std::shared_ptr<const StoredSnapshot> start;  // null: it starts from nothing
  bool weights_from_workers = false;            // should no copy of a shard be left

  bool external() const { return !parameters.empty(); }
  uint32_t workers_with_rows() const { return dealt_workers > 0 ? dealt_workers : workers; }
  size_t features() const { return numeric + hashed; }
  size_t scores() const { return regression ? 1 : classes; }
  // The number in the stream of a worker's row.
  uint64_t StreamRow(WorkerId worker, RowNumber row) const {
    uint64_t before = 0;  // of each worker, in earlier rounds
    uint64_t turn = rows_per_turn;
    for (uint64_t round = 1; uint64_t{row} - before >= turn; ++round) {
      before += turn;
      if (round >= 32 && round % 16 == 0 && 2 * turn <= most_rows_per_turn) turn *= 2;
    }
    return before * workers_with_rows() + uint64_t{worker} * turn + (uint64_t{row} - before);
  }
  bool has_growing_batches() const { return batches_grow && !averages() && one_pass(); }
  // Whether a flush stands before this row of the worker.
  bool IsFlushed(WorkerId worker, RowNumber row) const {
    return flushes && row > 0 && row < rows[worker] &&
           Random::Hash(data_seed, worker, row, 79) % 4 == 0;
  }
  // Of a job whose workers change, a worker's leases are ranges of its partition, which end at
  // these rows. They are given to it one by one, in each of its lives.
  bool resizes() const { return first_workers > 0; }
  bool IsLeaseEnd(WorkerId worker, RowNumber row) const {
    return resizes() && row > 0 &&
           (row == rows[worker] || Random::Hash(data_seed, worker, row, 80) % 5 == 0);
  }
  // Of the worker's batch of one pass that begins there, but for the end of the stream.
  RowNumber BatchEnd(WorkerId worker, RowNumber begin) const;
  static constexpr uint32_t kFirstRowsOfGradients = 2;
  RowShape shape() const { return {numeric, features(), classes, ids}; }
  bool is_network() const { return training.model() == Training::NETWORK; }
  // The model's penalty is that of its rows, too.
  bool penalises_rows() const { return wide || (is_network() && ids > 0); }
  bool balances() const {
    return !training.class_weight().empty() && training.class_weight(0) == "balanced";
  }
  // Whether the moments have the rows of each class: they weigh rows, or scores begin at them.
  bool counts_classes() const {
    if (regression) return false;
    return balances() || is_network() || (ids > 0 && training.class_weight().empty());
  }
  bool one_pass() const { return training.schedule() == Training::ONE_PASS; }
  bool sequential() const {
    return training.consistency().model() == Training::Consistency::SEQUENTIAL;
  }
  bool has_tables() const {
    return std::ranges::any_of(parameters, [](const auto& named) { return named.has_table(); });
  }
  bool has_rows() const { return ids > 0 || wide || has_tables(); }
  bool averages() const { return training.update().kind() == Training::Update::WEIGHT_CHANGE; }
  bool online() const { return training.update().kind() == Training::Update::ONLINE; }
  // Whoever dies. (With top_k a worker takes along what its updates kept back.)
  bool repeatable() const { return training.compression().top_k() == 1; }
  std::string ToString() const;
};

Scenario DrawScenario(Random& random);
// A job whose workers come, leave and come again while it runs.
void DrawResizes(Scenario& scenario, uint32_t first_workers);
// Worker 0 has all rows, the others none.
void DealToOneWorker(Scenario& scenario);
// A little more than a worker's part of a shard's state, which is never divided.
size_t SmallMessageBytes(const Scenario& scenario);

// Of a regression.
float TargetOf(const Scenario& scenario, WorkerId worker, RowNumber number);
Row MakeRow(const Scenario& scenario, WorkerId worker, RowNumber number);
bool IsUndecodable(const Scenario& scenario, WorkerId worker, RowNumber number);
// Whether nothing of this record can be read: all its rows are undecodable, and are not sent singly
// as rows that do not fit the job.
bool IsDamaged(const Scenario& scenario, WorkerId worker, const InputKey& key);
// The value of the record with these rows, or the end's.
std::string InputValue(const Scenario& scenario, WorkerId worker, const InputKey& key);

// All ids that rows may name, ascending.
std::vector<EmbeddingId> AllIds(const Scenario& scenario);

// What the programs would be made with.
std::unique_ptr<Model> MakeModel(const Scenario& scenario);
ServerOptions MakeServerOptions(const Scenario& scenario, ShardId shard);
WorkerOptions MakeWorkerOptions(const Scenario& scenario, WorkerId worker);

}  // namespace millrace::simulation
