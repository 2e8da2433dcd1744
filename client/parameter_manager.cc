#include "millrace/parameter_manager.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/distinct_ids.h"
#include "base/grouped_number.h"
#include "base/status.h"
#include "client/node_client.h"
#include "client/quiet.h"
#include "client/settings.h"
#include "client/trainer_connection.h"
#include "job/job_topics.h"
#include "processors/policy.h"
#include "processors/server_options.h"
#include "processors/step_rows.h"
#include "topics/parameter_layout.h"
#include "topics/partitioning.h"
#include "topics/server_groups.h"
#include "topics/slice_codec.h"
#include "topics/table_rows.h"
#include "topics/topics.h"

namespace millrace::client {
namespace {

// A parameter that another trainer of an eventual job is still to put is asked for so often.
constexpr double kAskAgainS = 0.05;

// Of the rows that a step reads, wants or changes: a message has much room, but not any amount.
constexpr size_t kMostRowBytes = size_t{256} << 20;

absl::Status BadNumber(const std::string& whose, const char* what) {
  return absl::InvalidArgumentError(whose + ": a NaN, an infinity or a number beyond 1e18 in its " +
                                    what);
}
absl::Status BadNumber(const Param& param, const char* what) {
  return BadNumber("the parameter " + param.spec().name, what);
}

absl::StatusOr<std::vector<float>> CopyOf(const Param& param, std::span<const float> numbers,
                                          const char* what) {
  std::vector<float> copy;
  if (!AppendWithin(numbers, kLargestValue, copy)) return BadNumber(param, what);
  return copy;
}

absl::Status CheckGradOf(const Table& table, std::span<const float> numbers, const char* what) {
  if (AllWithin(numbers, kLargestValue)) return absl::OkStatus();
  return BadNumber("the table " + table.spec().name, what);
}

// Whether the ranges of ids, both ascending, overlap.
bool Overlap(std::span<const EmbeddingId> a, std::span<const EmbeddingId> b) {
  return !a.empty() && !b.empty() && a.front() <= b.back() && b.front() <= a.back();
}

template <typename T>
bool IsOneOf(const std::vector<std::unique_ptr<T>>& all, const T* one) {
  return one->id() >= 0 && static_cast<size_t>(one->id()) < all.size() &&
         all[static_cast<size_t>(one->id())].get() == one;
}

// Whether there is so much memory, as far as the system says so beforehand.
bool MayHave(size_t bytes) {
  // (A new-expression is one that a compiler may leave out.)
  void* const memory = ::operator new(bytes, std::nothrow);
  ::operator delete(memory);
  return memory != nullptr;
}

}  // namespace

class ParameterManager::Impl {
 public:
  explicit Impl(const Settings& settings)
      : settings_(settings),
        config_(ConfigOf(settings)),
        stop_(settings.stop != nullptr ? *settings.stop : never_) {
    features_.set_epoch(settings.epoch);
    features_.set_workers(settings.trainers);
    features_.set_job(settings.job);
    features_.mutable_spec();
  }

  absl::Status Connect() {
    // (A deadline is the broker's: nobody else is waited for.)
    absl::Status prepared = JobTopics(stop_).Prepare(config_);
    if (!absl::IsDeadlineExceeded(prepared)) return prepared;
    return absl::UnavailableError("no Kafka broker answers at " + settings_.brokers +
                                  " (Settings::brokers)");
  }

  absl::StatusOr<int> Register(const ParamSpec& spec) {
    NamedParameter parameter;
    parameter.set_name(spec.name);
    for (const int64_t extent : spec.shape) {
      parameter.add_shape(static_cast<uint64_t>(std::max<int64_t>(extent, 0)));
    }
    parameter.set_handler(spec.handler);
    parameter.set_learning_rate_multiplier(spec.learning_rate_multiplier);
    parameter.set_decay_multiplier(spec.decay_multiplier);
    return Add(std::move(parameter));
  }

  absl::StatusOr<int> Register(const TableSpec& spec) {
    NamedParameter table;
    table.set_name(spec.name);
    table.add_shape(static_cast<uint64_t>(std::max<int64_t>(spec.width, 0)));
    table.set_handler(spec.handler);
    table.set_learning_rate_multiplier(spec.learning_rate_multiplier);
    table.set_decay_multiplier(spec.decay_multiplier);
    table.mutable_table()->set_scale(spec.initial_scale);
    return Add(std::move(table));
  }

  size_t size_of(int id) const { return keys_[static_cast<size_t>(id)].size(); }

  absl::Status Put(const Param& param) {
    MILLRACE_RETURN_IF_ERROR(CheckHasNotLeft());
    MILLRACE_ASSIGN_OR_RETURN(std::vector<float> values, CopyOf(param, param.data(), "data"));
    open_.put.insert_or_assign(static_cast<uint32_t>(param.id()), std::move(values));
    return absl::OkStatus();
  }

  // The values that the next step is made of are here. Where another process has made that step as
  // this trainer, they may be of a later clock: the trainer makes it of those, and Step passes over
  // it. (To go on with a later step is the trainer's to say, who chooses data by Steps.)
  absl::Status WaitForValues() {
    MILLRACE_RETURN_IF_ERROR(Begin());
    MILLRACE_RETURN_IF_ERROR(
        WaitUntil([this] { return steps().values_at() && *steps().values_at() >= next_; }));
    read_ = next_;
    return absl::OkStatus();
  }

  absl::Status Get(const Param& param, std::span<float> data) {
    MILLRACE_RETURN_IF_ERROR(WaitForValues());
    MILLRACE_RETURN_IF_ERROR(WaitForPut(param));
    const KeyRange keys = keys_[static_cast<size_t>(param.id())];
    steps().CopyValues(keys, data);
    return absl::OkStatus();
  }

  // Waits for the rows, which CopyRows then has.
  absl::Status ReadRows(const Table& table, std::span<const uint64_t> ids) {
    MILLRACE_ASSIGN_OR_RETURN(std::vector<EmbeddingId> wanted, RowsOf(table, ids));
    AskedRows asked(std::move(wanted));
    do {
      MILLRACE_RETURN_IF_ERROR(WaitForValues());
      steps().ReadRows(asked.distinct());
      MILLRACE_RETURN_IF_ERROR(WaitUntil([this] { return steps().MissingRows().empty(); }));
      // (They may have been of values that are no more the newest.)
    } while (!steps().values_at() || !steps().HasRows(asked.distinct()));
    rows_read_.insert_or_assign(table.id(), ReadTable{next_, std::move(asked)});
    return absl::OkStatus();
  }

  // Those of the last ReadRows: as many as ids were given to it, of the table's width.
  void CopyRows(const Table& table, std::span<float> rows) {
    const AskedRows& asked = rows_read_.at(table.id()).rows;
    asked.Spread(steps().Rows(asked.distinct(), row_scratch_), steps().row_width(), table.width(),
                 rows);
  }

  absl::Status WantRows(const Table& table, std::span<const uint64_t> ids) {
    MILLRACE_RETURN_IF_ERROR(CheckHasNotLeft());
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<EmbeddingId> wanted, RowsOf(table, ids));
    MILLRACE_RETURN_IF_ERROR(CheckFits(open_.wanted.size() + ids.size()));
    open_.wanted.insert(open_.wanted.end(), wanted.begin(), wanted.end());
    SortDistinct(open_.wanted);
    return absl::OkStatus();
  }

  absl::Status UpdateRows(const Table& table) {
    MILLRACE_RETURN_IF_ERROR(CheckGradOf(table, table.grad(), "grad"));
    MILLRACE_RETURN_IF_ERROR(Begin());
    MILLRACE_RETURN_IF_ERROR(CheckHasNotLeft());
    const auto read = rows_read_.find(table.id());
    if (read == rows_read_.end() || (IsSequential() && read->second.at != next_)) {
      return absl::FailedPreconditionError(
          "the table " + table.spec().name +
          ": its rows were not read for this step; call GetRows first");
    }
    const AskedRows& asked = read->second.rows;
    MILLRACE_RETURN_IF_ERROR(CheckFits(open_.table_rows.ids.size() + asked.size()));
    StepRows sums = asked.SumsOf(table.grad(), table.width());
    // (Where rows are updated once more, nothing has changed until all is known to be well.)
    const bool is_again = Overlap(open_.table_rows.ids, sums.ids);
    if (is_again) AddRows(open_.table_rows, TablesOf(features_), sums);
    if (is_again || asked.distinct().size() < asked.size()) {
      MILLRACE_RETURN_IF_ERROR(CheckGradOf(table, sums.values, "sum of the step's updates"));
    }
    if (is_again) {
      open_.table_rows = std::move(sums);
    } else {
      AddRows(std::move(sums), TablesOf(features_), open_.table_rows);
    }
    return absl::OkStatus();
  }

  absl::Status Collect() {
    MILLRACE_RETURN_IF_ERROR(Begin());
    TrainerTask& task = connection_->task();
    MILLRACE_RETURN_IF_ERROR(WaitUntil([&] { return task.answered() && task.clock() >= next_; }));
    // What was read while steps were in flight does not have them in it.
    if (!IsSequential()) steps().WantValues();
    return absl::OkStatus();
  }

  absl::Status Update(const Param& param) {
    MILLRACE_ASSIGN_OR_RETURN(std::vector<float> sum, CopyOf(param, param.grad(), "grad"));
    MILLRACE_RETURN_IF_ERROR(Begin());
    MILLRACE_RETURN_IF_ERROR(CheckHasNotLeft());
    if (IsSequential() && read_ != next_) {
      return absl::FailedPreconditionError(
          "the parameter " + param.spec().name +
          ": in a sequential job a step is made of the answer to the last one; call Get or Collect "
          "first");
    }
    const auto number = static_cast<uint32_t>(param.id());
    const auto before = open_.part.find(number);
    if (before == open_.part.end()) {
      open_.part.emplace(number, std::move(sum));
      return absl::OkStatus();
    }
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += before->second[i];
    // (The servers would take such a step as one without updates.)
    if (!AllWithin(sum, kLargestValue)) return BadNumber(param, "sum of the step's updates");
    before->second = std::move(sum);
    return absl::OkStatus();
  }

  absl::Status Step(double weight) {
    if (!(weight > 0) || !std::isfinite(weight)) {
      return absl::InvalidArgumentError("Step: give a weight above 0");
    }
    MILLRACE_RETURN_IF_ERROR(Begin());
    const size_t most = PipelineOf(connection_->training().training());
    TrainerTask& task = connection_->task();
    MILLRACE_RETURN_IF_ERROR(
        WaitUntil([&] { return task.answered() && task.clock() + most > next_; }));
    if (task.clock() > next_) {  // another process has made it
      next_ = task.clock();
      open_ = {};
      return connection_->Serve();
    }
    const bool is_empty = open_.part.empty() && open_.table_rows.ids.empty();
    open_.weight = is_empty ? 0 : weight;
    open_.rows = is_empty ? 0 : static_cast<uint64_t>(std::llround(std::min(weight, 1e9)));
    steps().Add(next_++, std::exchange(open_, {}));
    return connection_->Serve();
  }

  // The first step of each trainer only puts.
  absl::StatusOr<uint64_t> Steps() {
    MILLRACE_RETURN_IF_ERROR(Begin());
    return next_ - Clock(1);
  }
  uint64_t steps_read() const { return read_ - Clock(1); }

  absl::StatusOr<std::vector<ShardRange>> Shard(int id) {
    if (id < 0 || static_cast<size_t>(id) >= keys_.size()) {
      return absl::InvalidArgumentError("there is no parameter " + std::to_string(id));
    }
    MILLRACE_RETURN_IF_ERROR(Begin());
    const KeyRange keys = keys_[static_cast<size_t>(id)];
    if (keys.size() == 0) {
      return absl::InvalidArgumentError(
          "a table has no such parts: a hash of their ids spreads its rows over all shards");
    }
    const uint32_t shards = ShardsOfGroup(connection_->training());
    std::vector<ShardRange> ranges;
    for (ShardId shard = 0; shard < shards; ++shard) {
      const KeyRange part = PartOf(keys, RangeOfShard(shard, shards, keys_.back().end));
      if (part.size() == 0) continue;
      ranges.push_back({shard, static_cast<int64_t>(part.begin - keys.begin),
                        static_cast<int64_t>(part.end - keys.begin)});
    }
    return ranges;
  }

  absl::Status Leave() {
    MILLRACE_RETURN_IF_ERROR(Begin());
    steps().Leave();
    open_ = {};
    MILLRACE_RETURN_IF_ERROR(connection_->ServeUntil([this] { return connection_->task().left(); },
                                                     settings_.timeout_s));
    if (nodes_) nodes_->Leave();
    return absl::OkStatus();
  }

  absl::Status Barrier(const std::string& name, uint32_t trainers) {
    MILLRACE_RETURN_IF_ERROR(AskForNodes());
    return nodes_->Barrier(name, trainers > 0 ? trainers : settings_.trainers);
  }
  absl::StatusOr<std::vector<Member>> Members() {
    MILLRACE_RETURN_IF_ERROR(AskForNodes());
    return nodes_->Members();
  }

 private:
  TrainerSteps& steps() { return connection_->task().steps(); }

  absl::StatusOr<int> Add(NamedParameter named) {
    const std::string name = (named.has_table() ? "the table " : "the parameter ") + named.name();
    if (connection_) {
      return absl::FailedPreconditionError(
          name + ": the job has begun; register all before the first Get, Step or Steps");
    }
    JobFeatures with = features_;
    *with.add_parameters() = std::move(named);
    MILLRACE_ASSIGN_OR_RETURN(std::vector<KeyRange> keys, LayOutParameters(with));
    const size_t bytes = 2 * sizeof(float) * keys.back().size();
    if (!MayHave(bytes)) {
      return absl::ResourceExhaustedError(name +
                                          ": there is not enough memory for it and its gradient, " +
                                          GroupedNumber(bytes) + " bytes");
    }
    keys_ = std::move(keys);
    features_ = std::move(with);
    return static_cast<int>(keys_.size()) - 1;
  }

  // The rows' ids among those of all tables, in the order of `ids`.
  absl::StatusOr<std::vector<EmbeddingId>> RowsOf(const Table& table,
                                                  std::span<const uint64_t> ids) const {
    const std::vector<NamedTable> tables = TablesOf(features_);
    const auto found =
        std::ranges::find(tables, static_cast<uint32_t>(table.id()), &NamedTable::parameter);
    MILLRACE_CHECK(found != tables.end());
    const auto number = static_cast<uint32_t>(found - tables.begin());
    MILLRACE_RETURN_IF_ERROR(CheckFits(ids.size()));
    std::vector<EmbeddingId> rows;
    rows.reserve(ids.size());
    for (const uint64_t id : ids) {
      if (id > kMostRowId) {
        return absl::InvalidArgumentError("the table " + table.spec().name + ": the id " +
                                          std::to_string(id) + " is not below 2^56");
      }
      rows.push_back(RowIn(number, id));
    }
    return rows;
  }

  absl::Status CheckFits(size_t rows) const {
    const size_t row_bytes = sizeof(uint64_t) + sizeof(float) * WidestRow(TablesOf(features_));
    if (rows <= kMostRowBytes / row_bytes) return absl::OkStatus();
    return absl::InvalidArgumentError(std::to_string(rows) +
                                      " rows of a step are more than go into one message: give " +
                                      std::to_string(kMostRowBytes / row_bytes) + " at most");
  }
  bool IsSequential() const {
    return connection_->training().training().consistency().model() ==
           Training::Consistency::SEQUENTIAL;
  }

  absl::Status AskForNodes() {
    if (settings_.master.empty()) {
      return absl::FailedPreconditionError(
          "Barrier and Members ask MasterApp, and no master is given: start MasterApp with "
          "--master-address HOST:PORT, and give that as Settings::master");
    }
    if (nodes_) return absl::OkStatus();
    nodes_ = std::make_unique<NodeClient>(
        NodeClientOptions{.master = settings_.master,
                          .address = "trainer-" + std::to_string(settings_.trainer),
                          .timeout_s = settings_.timeout_s,
                          .should_stop = [this] {
                            if (settings_.while_waiting) settings_.while_waiting();
                            return stop_.load();
                          }});
    return absl::OkStatus();
  }

  // After a leave no values come.
  absl::Status CheckHasNotLeft() {
    if (connection_ == nullptr || !steps().HasEnd()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "trainer " + std::to_string(settings_.trainer) + " has left the job " + settings_.job +
        ", in this process or in one before. A leave is final: use another job");
  }

  // An older process may have been killed between its leaves: this one ends them.
  absl::Status WaitUntil(const std::function<bool()>& done) {
    MILLRACE_RETURN_IF_ERROR(connection_->ServeUntil(
        [&] { return steps().HasEnd() ? connection_->task().left() : done(); },
        settings_.timeout_s));
    return CheckHasNotLeft();
  }

  absl::Status Begin() {
    if (has_begun_) return absl::OkStatus();
    if (keys_.empty())
      return absl::FailedPreconditionError("register a parameter or a table first");
    if (!connection_) {
      MILLRACE_ASSIGN_OR_RETURN(
          connection_,
          TrainerConnection::Open(config_, WorkerId(settings_.trainer), features_,
                                  settings_.timeout_s, stop_, settings_.while_waiting));
    }
    TrainerTask& task = connection_->task();
    MILLRACE_RETURN_IF_ERROR(
        connection_->ServeUntil([&] { return task.answered(); }, settings_.timeout_s));
    has_begun_ = true;
    next_ = task.clock();
    TrainerStep first = std::exchange(open_, {});
    if (next_ == 0) steps().Add(next_++, std::move(first));
    return connection_->Serve();
  }

  absl::Status WaitForPut(const Param& param) {
    const auto is_put = [&] {
      return std::ranges::binary_search(steps().has_values(), static_cast<uint32_t>(param.id()));
    };
    const auto begin = std::chrono::steady_clock::now();
    while (!is_put()) {
      if (IsSequential()) {
        return absl::FailedPreconditionError("the parameter " + param.spec().name +
                                             ": no trainer has put it");
      }
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (settings_.timeout_s > 0 && waited.count() > settings_.timeout_s) {
        return absl::DeadlineExceededError("the parameter " + param.spec().name +
                                           ": no trainer has put it in time");
      }
      MILLRACE_RETURN_IF_ERROR(connection_->Ask());
      absl::Status served = connection_->ServeUntil([] { return false; }, kAskAgainS);
      if (!absl::IsDeadlineExceeded(served)) return served;
      steps().WantValues();
      MILLRACE_RETURN_IF_ERROR(WaitForValues());
    }
    return absl::OkStatus();
  }

  // A table's rows that were read last, and the clock at which they were.
  struct ReadTable {
    Clock at;
    AskedRows rows;
  };

  const Settings settings_;
  const JobConfig config_;
  const std::atomic<bool> never_{false};
  const std::atomic<bool>& stop_;
  JobFeatures features_;
  std::vector<KeyRange> keys_;
  std::unique_ptr<TrainerConnection> connection_;
  std::unique_ptr<NodeClient> nodes_;
  bool has_begun_ = false;
  Clock next_ = 0;  // of the open step
  Clock read_ = 0;  // the clock at which values were last read
  TrainerStep open_;
  std::map<int, ReadTable> rows_read_;  // by table
  std::vector<float> row_scratch_;      // keeps its memory
};

ParameterManager::ParameterManager(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ParameterManager::~ParameterManager() = default;

Result<std::unique_ptr<ParameterManager>> ParameterManager::Connect(const Settings& settings) {
  if (const absl::Status valid = CheckSettings(settings); !valid.ok()) return ToPublic(valid);
  BeQuietByDefault();
  auto impl = std::make_unique<Impl>(settings);
  if (const absl::Status connected = impl->Connect(); !connected.ok()) return ToPublic(connected);
  return std::unique_ptr<ParameterManager>(new ParameterManager(std::move(impl)));
}

Result<Param*> ParameterManager::Register(const ParamSpec& spec) {
  const absl::StatusOr<int> id = impl_->Register(spec);
  if (!id.ok()) return ToPublic(id.status());
  params_.push_back(std::unique_ptr<Param>(new Param(*id, spec, impl_->size_of(*id))));
  tables_.push_back(nullptr);
  return params_.back().get();
}

Result<Table*> ParameterManager::RegisterTable(const TableSpec& spec) {
  const absl::StatusOr<int> id = impl_->Register(spec);
  if (!id.ok()) return ToPublic(id.status());
  tables_.push_back(std::unique_ptr<Table>(new Table(*id, spec)));
  params_.push_back(nullptr);
  return tables_.back().get();
}

Status ParameterManager::CheckIsOwn(const Param* param) const {
  if (param != nullptr && IsOneOf(params_, param)) return {};
  return {Code::kInvalidArgument, "this is no parameter of this manager"};
}

Status ParameterManager::CheckIsOwn(const Table* table) const {
  if (table != nullptr && IsOneOf(tables_, table)) return {};
  return {Code::kInvalidArgument, "this is no table of this manager"};
}

Status ParameterManager::Put(const Param& param) {
  if (Status own = CheckIsOwn(&param); !own.ok()) return own;
  return ToPublic(impl_->Put(param));
}

Status ParameterManager::Get(Param* param) {
  if (Status own = CheckIsOwn(param); !own.ok()) return own;
  const absl::Status read = impl_->Get(*param, param->data());
  if (read.ok()) param->version_ = impl_->steps_read();
  return ToPublic(read);
}

Status ParameterManager::Update(const Param& param) {
  if (Status own = CheckIsOwn(&param); !own.ok()) return own;
  return ToPublic(impl_->Update(param));
}

Status ParameterManager::GetRows(Table* table, std::span<const uint64_t> ids) {
  if (Status own = CheckIsOwn(table); !own.ok()) return own;
  const std::vector<uint64_t> asked(ids.begin(), ids.end());  // (they may be table->ids())
  if (const absl::Status read = impl_->ReadRows(*table, asked); !read.ok()) return ToPublic(read);
  const size_t floats = asked.size() * table->width();
  if (floats != table->memory_->rows.size()) {
    table->memory_ = std::make_shared<Table::Memory>();
    table->memory_->rows.resize(floats);
    table->memory_->grad.resize(floats);
  } else {
    std::ranges::fill(table->memory_->grad, 0.0f);
  }
  impl_->CopyRows(*table, table->memory_->rows);
  table->ids_ = asked;
  table->version_ = impl_->steps_read();
  return {};
}

Status ParameterManager::WantRows(const Table& table, std::span<const uint64_t> ids) {
  if (Status own = CheckIsOwn(&table); !own.ok()) return own;
  return ToPublic(impl_->WantRows(table, ids));
}

Status ParameterManager::UpdateRows(const Table& table) {
  if (Status own = CheckIsOwn(&table); !own.ok()) return own;
  return ToPublic(impl_->UpdateRows(table));
}

Result<uint64_t> ParameterManager::Step(double weight) {
  if (const absl::Status sent = impl_->Step(weight); !sent.ok()) return ToPublic(sent);
  return Steps();
}

Status ParameterManager::Collect(Param* param) {
  if (Status own = CheckIsOwn(param); !own.ok()) return own;
  if (const absl::Status collected = impl_->Collect(); !collected.ok()) return ToPublic(collected);
  return Get(param);
}

Status ParameterManager::CollectRows(Table* table, std::span<const uint64_t> ids) {
  if (Status own = CheckIsOwn(table); !own.ok()) return own;
  if (const absl::Status collected = impl_->Collect(); !collected.ok()) return ToPublic(collected);
  return GetRows(table, ids);
}

Result<uint64_t> ParameterManager::Steps() {
  const absl::StatusOr<uint64_t> steps = impl_->Steps();
  if (!steps.ok()) return ToPublic(steps.status());
  return *steps;
}

Result<std::vector<ShardRange>> ParameterManager::Shard(int param_id) {
  const absl::StatusOr<std::vector<ShardRange>> ranges = impl_->Shard(param_id);
  if (!ranges.ok()) return ToPublic(ranges.status());
  return *ranges;
}

Status ParameterManager::Barrier(const std::string& name, uint32_t trainers) {
  return ToPublic(impl_->Barrier(name, trainers));
}

Result<std::vector<Member>> ParameterManager::Members() {
  absl::StatusOr<std::vector<Member>> members = impl_->Members();
  if (!members.ok()) return ToPublic(members.status());
  return *std::move(members);
}

Status ParameterManager::Leave() { return ToPublic(impl_->Leave()); }

}  // namespace millrace::client
