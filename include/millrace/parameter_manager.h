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
  std::string job;
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

// A trainer of a job. The order of calls:
//
//   Connect; Register each parameter, in the same order in all trainers; Put first values;
//   then, until Steps() says that it is enough: Get or Collect what the step needs, Update what it
//   changes, Step; in the end Leave.
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
// trainer computes nothing is lost, and nobody else waits for its answers.
//
// A param that is null or of another manager is kInvalidArgument. After Leave, also that of an
// older process of this trainer, all calls but Register, Steps, Shard and Leave are
// kFailedPrecondition.
class ParameterManager {
 public:
  // Waits for a broker, and makes the job's topics if need be.
  static Result<std::unique_ptr<ParameterManager>> Connect(const Settings& settings);
  ~ParameterManager();
  ParameterManager(const ParameterManager&) = delete;
  ParameterManager& operator=(const ParameterManager&) = delete;

  // kInvalidArgument: a name that is taken, a shape without numbers, an unknown handler;
  // kFailedPrecondition: the job has begun. The parameter lives as long as the manager.
  Result<Param*> Register(const ParamSpec& spec);

  // data() becomes the parameter's value, if nobody has put it before; with the next Step, or,
  // before the first, with the beginning. The first put of a job counts, and any other is no error;
  // of several puts in a step, the last. kInvalidArgument: NaN, infinity, or beyond 1e18.
  Status Put(const Param& param);
  // Reads the value into data(). Waits for the values that the next step is made of. In a
  // sequential job a parameter that nobody has put in the beginning is kFailedPrecondition; in
  // others it is waited for.
  Status Get(Param* param);

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

  // The steps that this trainer has made, in this process and those before. Waits in the beginning.
  Result<uint64_t> Steps();
  // Where the parameter is. Waits in the beginning.
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

  std::unique_ptr<Impl> impl_;
  std::vector<std::unique_ptr<Param>> params_;
};

}  // namespace millrace::client
