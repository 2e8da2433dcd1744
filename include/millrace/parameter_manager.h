// Keeps the parameters of a trainer of one's own on Millrace's servers (docs/parameter-manager.md).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/status.h"

namespace millrace::client {

struct Settings {
  std::string brokers = "localhost:9092";
  std::string job;        // its name, as of all programs
  uint64_t epoch = 1;     // ServerApp --job-epoch
  uint32_t trainers = 1;  // of the job: ServerApp --workers
  uint32_t trainer = 0;   // this one, 0 .. trainers - 1; two processes must not be the same one
  // HOST:PORT of MasterApp --master-address, for Barrier and Members. Empty: there is none.
  std::string master{};
  // librdkafka settings, such as {"security.protocol", "SSL"}.
  std::vector<std::pair<std::string, std::string>> kafka{};
  // Of servers with --answers direct: PEM files, as WorkerApp's --answers-tls-cert,
  // --answers-tls-key and --answers-tls-ca, and --answers-insecure. Without them answers from other
  // machines come through Kafka.
  std::string answers_tls_cert{};
  std::string answers_tls_key{};
  std::string answers_tls_ca{};
  bool answers_insecure = false;
  // How long a call may wait, for a broker (kUnavailable) or for servers and other trainers
  // (kDeadlineExceeded). 0: as long as it takes. Nothing is lost then: the call may be made again.
  double timeout_s = 0;
  // True ends the call that waits (kCancelled); it outlives the manager. May be null.
  const std::atomic<bool>* stop = nullptr;
  // Called several times a second while a call waits, but for a broker; it may set *stop. It must
  // not call the manager.
  std::function<void()> while_waiting{};
};

struct ParamSpec {
  std::string name;
  std::vector<int64_t> shape{};  // row-major; empty: a single number
  // sgd, momentum, adagrad, adam, ftrl, assign or add; empty: the optimizer of ServerApp. With a
  // dot in its name: one of the server's own (millrace/server.h).
  std::string handler{};
  double learning_rate_multiplier = 1;
  double decay_multiplier = 1;  // of ServerApp --l2
};

// A table of embedding rows: each has an id below 2^56, which the trainer chooses, and exists as
// soon as an update names it.
struct TableSpec {
  std::string name;   // among those of parameters and tables
  int64_t width = 1;  // floats of a row, 65,536 at most
  // As of ParamSpec, but none of the server's own. Momentum and adam change a row, and the decay
  // acts on it, in those steps only that name it.
  std::string handler{};
  double learning_rate_multiplier = 1;
  double decay_multiplier = 1;
  // A row's first values are drawn uniformly from [-initial_scale, initial_scale], as a function of
  // ServerApp --embedding-seed, the table and the id; 0: they are zeros. With ftrl 0.
  double initial_scale = 0;
};

// A part of a parameter: its numbers [begin, end), row-major, are on this shard.
struct ShardRange {
  uint32_t shard = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// A process that has told MasterApp of itself (docs/nodes.md); of those that had a rank, the last.
struct Member {
  enum class State { kLive = 0, kDead = 1, kLeft = 2 };
  std::string role;   // of trainers of this library: trainer
  uint32_t rank = 0;  // in its role, as they came
  std::string instance;
  std::string address;  // of trainers of this library: "trainer-" and Settings::trainer
  State state = State::kLive;
};

// A parameter and its gradient, in this process. The manager owns it.
class Param {
 public:
  Param(const Param&) = delete;
  Param& operator=(const Param&) = delete;

  int id() const { return id_; }
  const ParamSpec& spec() const { return spec_; }
  std::span<float> data() { return data_; }
  std::span<const float> data() const { return data_; }
  std::span<float> grad() { return grad_; }
  std::span<const float> grad() const { return grad_; }
  // Of data(): the steps that this trainer had made when it was read.
  uint64_t version() const { return version_; }

 private:
  friend class ParameterManager;
  Param(int id, ParamSpec spec, size_t size)
      : id_(id), spec_(std::move(spec)), data_(size), grad_(size) {}

  int id_;
  ParamSpec spec_;
  std::vector<float> data_;
  std::vector<float> grad_;
  uint64_t version_ = 0;
};

// Rows of a table and their gradients, in this process: those that GetRows has read last. The
// manager owns it.
class Table {
 public:
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  int id() const { return id_; }
  const TableSpec& spec() const { return spec_; }
  size_t width() const { return static_cast<size_t>(spec_.width); }
  // As they were given to GetRows.
  std::span<const uint64_t> ids() const { return ids_; }
  // ids().size() x width(), row by row. Where there is another number of rows than before, they
  // stand in other memory.
  std::span<float> rows() { return memory_->rows; }
  std::span<const float> rows() const { return memory_->rows; }
  // Of the same shape; zeros after GetRows.
  std::span<float> grad() { return memory_->grad; }
  std::span<const float> grad() const { return memory_->grad; }
  // Of rows(): the steps that this trainer had made when they were read.
  uint64_t version() const { return version_; }
  // Keeps rows() and grad() of now in memory for as long as somebody has it.
  std::shared_ptr<const void> memory() const { return memory_; }

 private:
  friend class ParameterManager;
  struct Memory {
    std::vector<float> rows;
    std::vector<float> grad;
  };
  Table(int id, TableSpec spec) : id_(id), spec_(std::move(spec)) {}

  int id_;
  TableSpec spec_;
  std::vector<uint64_t> ids_;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  uint64_t version_ = 0;
};

// A trainer of a job. The order of calls:
//
//   Connect; Register each parameter and RegisterTable each table, in the same order in all
//   trainers; Put first values; then, until Steps() says that it is enough: Get or Collect and
//   GetRows what the step needs, Update and UpdateRows what it changes, WantRows what the next one
//   needs, Step; in the end Leave.
//
// The first call after Register and Put begins: it publishes the parameters, or compares them with
// those that another trainer has published (kFailedPrecondition: they differ), and waits for the
// servers. A trainer whose process was killed does the same as one that starts: Steps() tells where
// it continues. Its puts then count for nothing, and what it had not ended by Step was never sent.
//
// No call blocks but those that say so. An update or a question of which no answer comes is
// repeated, with longer and longer pauses, by calls that wait; it counts once, however often it
// comes. A step that Step returned for is lost with its process only if no server had it: Collect
// and Leave wait until all have it. Not thread-safe. There are no threads of its own but
// librdkafka's, and one that gives signs of life from the first Barrier or Members on: while the
// trainer computes nothing is lost, and nobody else waits for its answers. A process that is forked
// has not these threads: it must neither use nor destroy its parent's manager.
//
// A param or table that is null or of another manager is kInvalidArgument. After Leave, also that
// of an older process of this trainer, all calls but Register, Steps, Shard and Leave are
// kFailedPrecondition.
class ParameterManager {
 public:
  // Waits for a broker, and makes the job's topics if need be.
  static Result<std::unique_ptr<ParameterManager>> Connect(const Settings& settings);
  ~ParameterManager();
  ParameterManager(const ParameterManager&) = delete;
  ParameterManager& operator=(const ParameterManager&) = delete;

  // kInvalidArgument: a name that is taken, a shape without numbers or with more than there is
  // memory for, an unknown handler; kFailedPrecondition: the job has begun. The parameter lives as
  // long as the manager.
  Result<Param*> Register(const ParamSpec& spec);
  // The same of a table, of which a job has 256 at most.
  Result<Table*> RegisterTable(const TableSpec& spec);

  // data() becomes the parameter's value, if nobody has put it before; with the next Step, or,
  // before the first, with the beginning. The first put of a job counts, and any other is no error;
  // of several puts in a step, the last. kInvalidArgument: NaN, infinity, or beyond 1e18.
  Status Put(const Param& param);
  // Reads the value into data(). Waits for the values that the next step is made of. In a
  // sequential job a parameter that nobody has put in the beginning is kFailedPrecondition; in
  // others it is waited for.
  Status Get(Param* param);

  // Reads these rows, each with the values that the next step is made of, into rows(). Ids are
  // below 2^56, in any order; one that stands there twice gets its values twice. Reading creates
  // nothing. A row whose id the last Step has sent (WantRows) has come with its answer; for others
  // the servers are asked, and waited for. May be called several times in a step. kInvalidArgument:
  // an id beyond, or more rows than go into a message (256 MiB).
  Status GetRows(Table* table, std::span<const uint64_t> ids);
  // The answer to the open step is to bring these rows: those that will be read by the next one,
  // or, with ServerApp --pipeline N, by the one N steps on. So a step takes one round trip. Before
  // the first step, with the beginning. kInvalidArgument as GetRows. Waits for nobody.
  Status WantRows(const Table& table, std::span<const uint64_t> ids);
  // Adds grad() of the rows that GetRows has read to the open step, as a sum over what the step
  // weighs; of an id that stands there twice the sum. Errors as of Update; in a sequential job
  // kFailedPrecondition, too, if the rows were read for another step.
  Status UpdateRows(const Table& table);

  // Adds grad() to the open step, as a sum over what the step weighs.
  // kInvalidArgument as Put, and nothing has changed; kFailedPrecondition: in a sequential job,
  // before the answer to the last step was read (Get, Collect), since then the step could not be
  // made again after a crash. Waits in the beginning.
  Status Update(const Param& param);
  // Ends the open step, which may have no updates, and sends it. `weight` > 0 is what its sums are
  // divided by, with the other trainers'. Returns Steps(). Waits only while as many steps are in
  // flight as the job allows (1; 2 in eventual and bounded jobs: ServerApp --pipeline).
  Result<uint64_t> Step(double weight = 1);
  // Waits for the answer to the last step, and reads the value as Get does.
  Status Collect(Param* param);
  // The same, of rows: as GetRows then.
  Status CollectRows(Table* table, std::span<const uint64_t> ids);

  // The steps that this trainer has made, in this process and those before. Waits in the beginning.
  Result<uint64_t> Steps();
  // Where the parameter is, by the shards that this trainer works with: it goes over to others
  // while it waits (MasterApp reshard). Of a table kInvalidArgument, since a hash of their ids
  // spreads its rows. Waits in the beginning.
  Result<std::vector<ShardRange>> Shard(int param_id);

  // Waits until all live trainers of the job have called it with this name (1 to 100 bytes), and
  // at least `trainers` (0: Settings::trainers) are there. A trainer that dies, or leaves, is
  // waited for only if fewer are left; its replacement calls the barriers of a name from the first
  // one on. kFailedPrecondition: no master (Settings::master), or it takes this process for dead. A
  // call that was not answered in time counts: the others pass, and it may be made again.
  Status Barrier(const std::string& name, uint32_t trainers = 0);
  // Who is there, by role and rank, with this trainer. Errors as Barrier.
  Result<std::vector<Member>> Members();

  // No further step of this trainer will come; waits for the answer to the last one, and until all
  // servers know. Without it other trainers of a sequential or bounded job wait for this one. What
  // no Step has ended is dropped.
  Status Leave();

 private:
  class Impl;
  explicit ParameterManager(std::unique_ptr<Impl> impl);
  Status CheckIsOwn(const Param* param) const;
  Status CheckIsOwn(const Table* table) const;

  std::unique_ptr<Impl> impl_;
  // By id; null: it is one of the others.
  std::vector<std::unique_ptr<Param>> params_;
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace millrace::client
