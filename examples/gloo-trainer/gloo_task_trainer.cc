// A trainer of one's own whose processes train one model together by all-reduce
// (docs/all-reduce.md), of rows that MasterApp deals out as tasks (docs/tasks.md).
//
// A linear model of rows that are made up. In each round every process computes the gradient of a
// batch of its own task, or none while it has no task, and all add all gradients. A task is
// reported when all its batches are in everybody's weights. So whoever dies, the task that it had
// goes to another, and every row is trained: once, or again where its first trainer died.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "collective/ordered_all_reduce.h"
#include "collective/state_sync.h"
#include "collective/world.h"
#include "examples/gloo-trainer/node.h"
#include "messages/elasticai.grpc.pb.h"

namespace millrace {
namespace {

constexpr char kSet[] = "rows";

struct Options {
  NodeOptions node;
  std::string state_file;
  int32_t rank = 0;
  uint32_t records = 4000;
  int32_t batch_rows = 16;
  int32_t batches_per_task = 4;
  uint64_t pause_ms = 0;
};

// ---- tasks ----

// Gets and reports tasks on a thread of its own, since a call waits: the world must not wait for
// it.
class Tasks {
 public:
  explicit Tasks(const Options& options)
      : options_(options),
        stub_(proto::Master::NewStub(ChannelTo(options.node.master))),
        thread_([this] { Run(); }) {}
  ~Tasks() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // The task that is to be trained; none: it is not known yet, or there is no more.
  std::optional<proto::Task> task() const {
    const std::lock_guard lock(mutex_);
    return task_;
  }
  // Of the task.
  void SetDone() {
    const std::lock_guard lock(mutex_);
    task_.reset();
    changed_.notify_all();
  }
  // All are done, also those that others had.
  bool finished() const { return finished_; }

 private:
  void Run() {
    const Status status = GetAll();
    if (!status.ok() && !ends_) {
      (void)std::fprintf(stderr, "tasks: %s\n", std::string(status.message()).c_str());
      std::exit(1);
    }
  }

  Status GetAll() {
    proto::ReportDatasetShardParamsRequest begin;
    begin.set_dataset_name(kSet);
    begin.set_dataset_size(options_.records);
    begin.set_batch_size(options_.batch_rows);
    begin.set_num_minibatches_per_shard(options_.batches_per_task);
    begin.set_num_epochs(1);
    begin.set_task_type(proto::TRAINING);
    google::protobuf::Empty nothing;
    using Stub = proto::Master::Stub;
    MILLRACE_RETURN_IF_ERROR(
        CallUntilAnswered(*stub_, &Stub::report_dataset_shard_params, begin, nothing, ends_));
    while (true) {
      proto::GetDatasetTaskRequest get;
      get.set_dataset_name(kSet);
      get.set_worker_id(options_.rank);
      proto::Task task;
      MILLRACE_RETURN_IF_ERROR(
          CallUntilAnswered(*stub_, &Stub::get_dataset_task, get, task, ends_));
      if (task.type() != proto::TRAINING) break;
      if (!WaitUntilTrained(task)) return absl::OkStatus();
      proto::ReportDatasetTaskResultRequest result;
      result.set_dataset_name(kSet);
      result.set_task_id(task.task_id());
      MILLRACE_RETURN_IF_ERROR(
          CallUntilAnswered(*stub_, &Stub::report_dataset_task_result, result, nothing, ends_));
    }
    finished_ = true;
    return absl::OkStatus();
  }

  // False: this object ends.
  bool WaitUntilTrained(const proto::Task& task) {
    std::unique_lock lock(mutex_);
    task_ = task;
    changed_.wait(lock, [this] { return !task_ || ends_; });
    return !ends_;
  }

  const Options options_;
  const std::unique_ptr<proto::Master::Stub> stub_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<proto::Task> task_;  // guarded by mutex_
  std::atomic<bool> finished_ = false;
  std::atomic<bool> ends_ = false;
  std::thread thread_;  // last: it uses all of the above
};

// ---- the model ----

constexpr size_t kFeatures = 20;
// The state that all members have, a vector of floats: the weights; the sum of a number of each row
// that was trained, which is exact; whether all is done; and how often each row was trained.
constexpr size_t kTotal = kFeatures;
constexpr size_t kDone = kFeatures + 1;
constexpr size_t kTimes = kFeatures + 2;
// What is added up in a round has in these places: the gradient; the total of its rows; how many
// members have no more tasks. Behind the times, how many know of a newcomer, and the rows.
constexpr size_t kFinished = kDone;
constexpr size_t kBehind = 2;

using Numbers = std::vector<float>;

// The number of a row decides what is in it.
float FeatureOf(uint64_t row, size_t feature) {
  return EvenlyFrom(Mix64(row * kFeatures + feature));
}
float NumberOf(uint64_t row) { return static_cast<float>(row % 97); }

void AddRow(uint64_t row, const Numbers& state, Numbers& sum) {
  float error = 0;
  for (size_t i = 0; i < kFeatures; ++i) {
    error += (state[i] - static_cast<float>(i)) * FeatureOf(row, i);
  }
  for (size_t i = 0; i < kFeatures; ++i) sum[i] += error * FeatureOf(row, i);
  sum[kTotal] += NumberOf(row);
  sum[kTimes + row] += 1;
}

// ---- training ----

class Trainer {
 public:
  Trainer(const Options& options, Node& node, Tasks& tasks)
      : options_(options), node_(node), tasks_(tasks), state_(kTimes + options.records, 0.0f) {}

  Status Run() {
    while (true) {
      MeshOptions mesh;
      mesh.host = options_.node.host;
      StatusOr<World> world = World::Join(
          mesh, node_.instance(), [this](const std::string& value) { return node_.Gather(value); });
      Status status = world.ok() ? TrainIn(*world) : world.status();
      if (status.ok() && is_done_) return absl::OkStatus();
      // A member has died, or was too slow: the others go on in another world.
      if (!status.ok() && !absl::IsUnavailable(status)) return status;
    }
  }

  const Numbers& state() const { return state_; }

 private:
  // Until all is done, somebody new waits for a world, or this one fails. Some members may have got
  // the last sum where others have not, who need them; so the end is a world that begins with it.
  Status TrainIn(World& world) {
    MILLRACE_RETURN_IF_ERROR(
        TakeFurthest(world, round_, std::as_writable_bytes(std::span(state_))));
    if (round_ > offered_) NoteOffered();  // who has got the sum of the round that failed has told
    (void)std::printf("world %llu: member %u of %u, from round %llu\n",
                      static_cast<unsigned long long>(world.id()), world.position(), world.size(),
                      static_cast<unsigned long long>(round_));
    (void)std::fflush(stdout);
    is_done_ = state_[kDone] > 0;
    std::vector<uint32_t> owners(world.size());
    for (uint32_t member = 0; member < world.size(); ++member) owners[member] = member;
    OrderedAllReduce all_reduce(world, owners, state_.size() + kBehind);
    bool has_newcomers = false;
    while (state_[kDone] == 0 && !has_newcomers) {
      std::this_thread::sleep_for(std::chrono::milliseconds(options_.pause_ms));
      const Numbers own = Offer();
      Numbers sum(own.size());
      MILLRACE_RETURN_IF_ERROR(
          all_reduce.Run(std::vector<Contribution>{{world.position(), own}}, sum));
      // Who has taken part in this round had the sum of the last one.
      if (std::exchange(is_trained_, false)) tasks_.SetDone();
      Step(sum, world.size());
      NoteOffered();
      has_newcomers = sum[state_.size()] > 0;  // so all know it after the same round
    }
    return absl::OkStatus();
  }

  // What this member adds to the round.
  Numbers Offer() {
    Numbers own(state_.size() + kBehind, 0.0f);
    offered_ = round_;
    const std::optional<proto::Task> task = tasks_.task();
    if (task && task->task_id() != task_id_) {
      task_id_ = task->task_id();
      next_ = task->shard().start();
    }
    batch_end_ = task ? std::min<int64_t>(next_ + options_.batch_rows, task->shard().end()) : next_;
    for (int64_t row = next_; row < batch_end_; ++row) {
      AddRow(static_cast<uint64_t>(row), state_, own);
    }
    own[kFinished] = tasks_.finished() ? 1.0f : 0.0f;
    own[state_.size()] = node_.HasNewcomers() ? 1.0f : 0.0f;
    own[state_.size() + 1] = static_cast<float>(batch_end_ - next_);
    return own;
  }

  void Step(const Numbers& sum, uint32_t members) {
    const float rows = sum[state_.size() + 1];
    for (size_t i = 0; i < kFeatures && rows > 0; ++i) state_[i] -= sum[i] / rows;
    state_[kTotal] += sum[kTotal];
    for (size_t i = kTimes; i < state_.size(); ++i) state_[i] += sum[i];
    if (sum[kFinished] >= static_cast<float>(members)) state_[kDone] = 1;
    ++round_;
  }

  // What this member has offered is in the state.
  void NoteOffered() {
    offered_ = UINT64_MAX;
    const std::optional<proto::Task> task = tasks_.task();
    next_ = batch_end_;
    is_trained_ = task && task->task_id() == task_id_ && next_ >= task->shard().end();
  }

  const Options& options_;
  Node& node_;
  Tasks& tasks_;
  Numbers state_;
  uint64_t round_ = 0;             // of this state
  uint64_t offered_ = UINT64_MAX;  // the round that this member has offered something to
  int32_t task_id_ = -1;           // the task that it is at, the rows before next_ are trained,
  int64_t next_ = 0;
  int64_t batch_end_ = 0;    // and those before this one are offered
  bool is_trained_ = false;  // the task is, in this member's state: others may still lack it
  bool is_done_ = false;
};

Status Run(const Options& options) {
  Node node(options.node);
  MILLRACE_RETURN_IF_ERROR(node.Join());
  Tasks tasks(options);
  Trainer trainer(options, node, tasks);
  MILLRACE_RETURN_IF_ERROR(trainer.Run());
  if (!options.state_file.empty()) {
    const std::string_view bytes(reinterpret_cast<const char*>(trainer.state().data()),
                                 trainer.state().size() * sizeof(float));
    MILLRACE_RETURN_IF_ERROR(WriteAtomicFile(options.state_file, bytes));
  }
  return node.Leave();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Options options;
  CLI::App app(
      "Trains a linear model in several processes by all-reduce, of rows that MasterApp deals out\n"
      "as tasks (docs/all-reduce.md).");
  millrace::AddNodeFlags(app, options.node);
  app.add_option("--rank", options.rank, "the process's number: {rank} in --worker-command");
  app.add_option("--records", options.records, "rows of the data set, the same in all processes");
  app.add_option("--batch-rows", options.batch_rows, "rows of each process in a round");
  app.add_option("--batches-per-task", options.batches_per_task, "batches of a task");
  app.add_option("--pause-ms", options.pause_ms, "pause in each round, to have time to look on");
  app.add_option(
      "--state-file", options.state_file,
      "file for the state at the end, 32-bit floats in the machine's byte order: 20\n"
      "weights, the sum of (row modulo 97) over all rows trained, 1, and how often each\n"
      "row was trained");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = millrace::Run(options);
  if (status.ok()) return 0;
  (void)std::fprintf(stderr, "gloo_task_trainer: %s\n", std::string(status.message()).c_str());
  return 1;
}
