#include "apps/job_flags.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <type_traits>
#include <utility>

#include "apps/config_checks.h"
#include "processors/policy.h"

namespace millrace {
namespace {

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  explicit FirstError(std::string name) : name_(std::move(name)) {}
  void AddError(int line, int column, const std::string& message) override {
    if (!text_.empty()) return;
    // What was found instead may be a password without its quotes.
    const std::string shown = message.substr(0, message.find(", got: "));
    text_ =
        name_ + ":" + std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": " + shown;
    if (shown == "Expected string") text_ += " in quotes";
  }
  const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string text_;
};

template <typename Enum>
Status ParseEnum(const std::map<std::string, Enum>& names, const std::string& text, Enum& value) {
  const auto found = names.find(text);
  if (found != names.end()) {
    value = found->second;
    return absl::OkStatus();
  }
  std::string known;
  for (const auto& [name, unused] : names) known += (known.empty() ? "" : ", ") + name;
  return absl::InvalidArgumentError("'" + text + "' is not one of " + known);
}

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

// CLI11 reports a failed flag by this exception, with the flag's name in front.
void ThrowIfError(const Status& status, const std::string& flag) {
  if (!status.ok()) throw CLI::ValidationError(flag, std::string(status.message()));
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> items;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) {
    if (!item.empty()) items.push_back(item);
  }
  return items;
}

const std::map<std::string, Training::Model> kModels = {{"softmax", Training::SOFTMAX},
                                                        {"fm", Training::FACTORIZATION_MACHINE},
                                                        {"deepfm", Training::DEEP_FM}};
const std::map<std::string, Training::Schedule> kSchedules = {{"one-pass", Training::ONE_PASS},
                                                              {"buffer", Training::BUFFER}};
const std::map<std::string, Training::Update::Kind> kUpdates = {
    {"gradient", Training::Update::GRADIENT}, {"weight-change", Training::Update::WEIGHT_CHANGE}};
const std::map<std::string, Training::Update::Solver> kSolvers = {
    {"lbfgs", Training::Update::LBFGS}, {"sgd", Training::Update::LOCAL_SGD}};
const std::map<std::string, Training::Optimizer::Kind> kOptimizers = {
    {"sgd", Training::Optimizer::SGD},
    {"momentum", Training::Optimizer::MOMENTUM},
    {"adagrad", Training::Optimizer::ADAGRAD},
    {"adam", Training::Optimizer::ADAM},
    {"ftrl", Training::Optimizer::FTRL}};
const std::map<std::string, Training::Compression::Values> kCompressions = {
    {"none", Training::Compression::FLOAT32},
    {"fp16", Training::Compression::FP16},
    {"bf16", Training::Compression::BF16}};
const std::map<std::string, Training::Scaling> kScalings = {{"running", Training::RUNNING},
                                                            {"none", Training::NONE}};
const std::map<std::string, FeatureSpec::Missing> kMissing = {{"reject", FeatureSpec::REJECT},
                                                              {"mean", FeatureSpec::MEAN}};

Status SetConsistency(const std::string& text, JobConfig& config) {
  MILLRACE_ASSIGN_OR_RETURN(const ConsistencyPolicy policy, ConsistencyPolicy::Parse(text));
  Training::Consistency& consistency = *config.mutable_training()->mutable_consistency();
  consistency.Clear();
  if (policy.sequential()) {
    consistency.set_model(Training::Consistency::SEQUENTIAL);
  } else if (!policy.bound()) {
    consistency.set_model(Training::Consistency::EVENTUAL);
  } else {
    consistency.set_model(Training::Consistency::BOUNDED);
    consistency.set_max_delay(*policy.bound());
  }
  return absl::OkStatus();
}

}  // namespace

JobFlags::JobFlags(CLI::App& app) : app_(app) {
  app.set_version_flag("--version", std::string("Millrace ") + MILLRACE_VERSION);
  app.add_option("--config", config_file_,
                 "Job configuration in protobuf text format (messages/job.proto documents every "
                 "field); flags override it")
      ->type_name("FILE");
  const char* group = "Job and Kafka";
  Add<std::string>("--job", group, "Name of the job, the prefix of its topics [millrace]",
                   [](JobConfig& c, const std::string& v) { c.set_name(v); });
  Add<std::string>("--brokers", group, "HOST:PORT[,HOST:PORT...] of Kafka [localhost:9092]",
                   [](JobConfig& c, const std::string& v) { c.set_brokers(v); });
  Add<std::vector<std::string>>(
      "--kafka", group,
      "KEY=VALUE: a librdkafka setting for every client, such as security.protocol=SASL_SSL; may "
      "be repeated",
      [](JobConfig& c, const std::vector<std::string>& pairs) {
        for (const std::string& pair : pairs) {
          const size_t equals = pair.find('=');
          if (equals == std::string::npos || equals == 0) {
            throw CLI::ValidationError("--kafka", "expected KEY=VALUE");
          }
          KafkaSetting& setting = *c.add_kafka();
          setting.set_key(pair.substr(0, equals));
          setting.set_value(pair.substr(equals + 1));
        }
      });
  Add<double>("--broker-timeout", group,
              "Seconds to wait for a broker before giving up; 0 waits for ever [0]",
              [](JobConfig& c, const double& v) { c.set_broker_timeout_s(v); });
  Add<uint32_t>("--replication-factor", group, "Replicas of the topics that are created [1]",
                [](JobConfig& c, const uint32_t& v) { c.set_replication_factor(v); });
  Add<uint32_t>("--workers", group, "Logical workers = partitions of input-data [4]",
                [](JobConfig& c, const uint32_t& v) { c.set_workers(v); });
  Add<uint64_t>(
      "--job-epoch", group,
      "All programs of a job have the same. Tells it from a job of that name whose topics and\n"
      "data folders were deleted, but whose programs may still run: what they send is refused [1]",
      [](JobConfig& c, const uint64_t& v) { c.set_epoch(v); });
}

template <typename T>
void JobFlags::Add(const std::string& name, const std::string& group, const std::string& help,
                   std::function<void(JobConfig&, const T&)> set) {
  CLI::Option* const option = app_.add_option_function<T>(
      name,
      [this, set](const T& value) {
        overrides_.push_back([set, value](JobConfig& config) { set(config, value); });
      },
      help);
  option->group(group);
  // A flag given twice: the last counts, as in most tools.
  if constexpr (!IsVector<T>::value) {
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  // Numbers may stand in one word; a setting or a name may hold a comma of its own.
  if constexpr (std::is_same_v<T, std::vector<double>> ||
                std::is_same_v<T, std::vector<uint32_t>>) {
    option->delimiter(',');
  }
}

void JobFlags::AddFlag(const std::string& name, const std::string& group, const std::string& help,
                       std::function<void(JobConfig&)> set) {
  app_.add_flag_callback(
          name, [this, set] { overrides_.push_back(set); }, help)
      ->group(group);
}

void JobFlags::AddFeatures() {
  const char* group = "Features";
  Add<std::string>("--label", group, "Column that holds the class",
                   [](JobConfig& c, const std::string& v) { c.mutable_features()->set_label(v); });
  Add<std::string>("--classes", group,
                   "A,B,C: the classes; found by a first scan of the file if not given",
                   [](JobConfig& c, const std::string& v) {
                     c.mutable_features()->clear_classes();
                     for (auto& item : SplitList(v)) c.mutable_features()->add_classes(item);
                   });
  Add<std::string>("--numeric", group, "A,B: numeric columns, unscaled",
                   [](JobConfig& c, const std::string& v) {
                     c.mutable_features()->clear_numeric();
                     for (auto& item : SplitList(v)) c.mutable_features()->add_numeric(item);
                   });
  Add<std::string>("--categorical", group, "A,B,A*B: categorical columns and crosses, hashed",
                   [](JobConfig& c, const std::string& v) {
                     c.mutable_features()->clear_categorical();
                     for (auto& item : SplitList(v)) c.mutable_features()->add_categorical(item);
                   });
  Add<std::string>("--ids", group,
                   "A,B,A*B: columns and crosses whose values have embedding rows (--model fm or "
                   "deepfm)",
                   [](JobConfig& c, const std::string& v) {
                     c.mutable_features()->clear_ids();
                     for (auto& item : SplitList(v)) c.mutable_features()->add_ids(item);
                   });
  AddFlag("--regression", group, "The label is a number to be estimated, not a class",
          [](JobConfig& c) { c.mutable_features()->set_regression(true); });
  Add<std::string>("--text", group, "Column of text, hashed as scikit-learn's HashingVectorizer",
                   [](JobConfig& c, const std::string& v) { c.mutable_features()->set_text(v); });
  Add<uint32_t>(
      "--categorical-buckets", group, "Hashed features of the categorical columns [4096]",
      [](JobConfig& c, const uint32_t& v) { c.mutable_features()->set_categorical_buckets(v); });
  Add<uint32_t>("--text-buckets", group, "Hashed features of the text column [1024]",
                [](JobConfig& c, const uint32_t& v) { c.mutable_features()->set_text_buckets(v); });
  Add<std::string>("--missing", group,
                   "Empty numeric cells: reject (the row) or mean (of the column) [reject]",
                   [](JobConfig& c, const std::string& v) {
                     FeatureSpec::Missing missing = FeatureSpec::REJECT;
                     ThrowIfError(ParseEnum(kMissing, v, missing), "--missing");
                     c.mutable_features()->set_missing(missing);
                   });
}

void JobFlags::AddTraining() {
  const char* group = "Training";
  Add<std::string>("--model", group,
                   "softmax; fm: a factorization machine on the id columns; deepfm: the same and a "
                   "network beside it, on the ids' factors and the numeric columns [softmax]",
                   [](JobConfig& c, const std::string& v) {
                     Training::Model model = Training::SOFTMAX;
                     ThrowIfError(ParseEnum(kModels, v, model), "--model");
                     c.mutable_training()->set_model(model);
                   });
  Add<std::string>("--schedule", group,
                   "one-pass (each row once, in batches) or buffer (the newest rows, again and "
                   "again) [one-pass]",
                   [](JobConfig& c, const std::string& v) {
                     Training::Schedule schedule = Training::ONE_PASS;
                     ThrowIfError(ParseEnum(kSchedules, v, schedule), "--schedule");
                     c.mutable_training()->set_schedule(schedule);
                   });
  Add<std::string>("--consistency,--max-vector-clock-delay,--max_vector_clock_delay", group,
                   "sequential, eventual, bounded:K; or the maximum delay: 0, -1, K [sequential]",
                   [](JobConfig& c, const std::string& v) {
                     ThrowIfError(SetConsistency(v, c), "--consistency");
                   });
  Add<uint32_t>("--batch-rows", group, "One pass: rows of a worker's batch [32]",
                [](JobConfig& c, const uint32_t& v) { c.mutable_training()->set_batch_rows(v); });
  Add<std::string>("--update", group,
                   "gradient (for the optimizer) or weight-change (averaged) [gradient]",
                   [](JobConfig& c, const std::string& v) {
                     Training::Update::Kind kind = Training::Update::GRADIENT;
                     ThrowIfError(ParseEnum(kUpdates, v, kind), "--update");
                     c.mutable_training()->mutable_update()->set_kind(kind);
                   });
  Add<std::string>("--solver", group, "Weight changes: lbfgs or sgd [lbfgs]",
                   [](JobConfig& c, const std::string& v) {
                     Training::Update::Solver solver = Training::Update::LBFGS;
                     ThrowIfError(ParseEnum(kSolvers, v, solver), "--solver");
                     c.mutable_training()->mutable_update()->set_solver(solver);
                   });
  Add<uint32_t>("--local-iterations", group, "Weight changes: iterations on a batch [2]",
                [](JobConfig& c, const uint32_t& v) {
                  c.mutable_training()->mutable_update()->set_local_iterations(v);
                });
  Add<double>("--local-learning-rate", group, "Weight changes by sgd: its learning rate [0.1]",
              [](JobConfig& c, const double& v) {
                c.mutable_training()->mutable_update()->set_local_learning_rate(v);
              });
  Add<std::string>("--optimizer", group,
                   "sgd, momentum, adagrad, adam, or ftrl: FTRL-Proximal for the linear part (with "
                   "AdaGrad for factors and networks) [adagrad]",
                   [](JobConfig& c, const std::string& v) {
                     Training::Optimizer::Kind kind = Training::Optimizer::ADAGRAD;
                     ThrowIfError(ParseEnum(kOptimizers, v, kind), "--optimizer");
                     c.mutable_training()->mutable_optimizer()->set_kind(kind);
                   });
  Add<double>("--learning-rate", group, "Of the optimizer [0.3]",
              [](JobConfig& c, const double& v) {
                c.mutable_training()->mutable_optimizer()->set_learning_rate(v);
              });
  Add<double>("--decay", group, "Step t uses learning-rate / (1 + decay * t) [0]",
              [](JobConfig& c, const double& v) {
                c.mutable_training()->mutable_optimizer()->set_decay(v);
              });
  Add<double>("--ftrl-beta", group,
              "FTRL: a weight's rate is learning-rate / (V + root of its summed squares) [1]",
              [](JobConfig& c, const double& v) {
                c.mutable_training()->mutable_optimizer()->set_ftrl_beta(v);
              });
  Add<double>(
      "--l1", group, "FTRL: L1 penalty; more of it, and more weights are exactly 0 [0]",
      [](JobConfig& c, const double& v) { c.mutable_training()->mutable_optimizer()->set_l1(v); });
  Add<double>("--l2", group,
              "L2 penalty beside the mean loss; of FTRL: beside the sum of all steps' [0]",
              [](JobConfig& c, const double& v) { c.mutable_training()->set_l2(v); });
  Add<std::vector<double>>("--class-weights", group, "A factor on each class's loss",
                           [](JobConfig& c, const std::vector<double>& v) {
                             c.mutable_training()->clear_class_weight();
                             for (double w : v) c.mutable_training()->add_class_weight(w);
                           });
  Add<std::string>(
      "--compress", group,
      "Values of updates on their way to the server: none (32 bits), fp16 or bf16 (half "
      "the bytes; a sequential one-pass run is still the same bytes, whoever dies) [none]",
      [](JobConfig& c, const std::string& v) {
        Training::Compression::Values values = Training::Compression::FLOAT32;
        ThrowIfError(ParseEnum(kCompressions, v, values), "--compress");
        c.mutable_training()->mutable_compression()->set_values(values);
      });
  Add<double>(
      "--top-k", group,
      "Of what a batch touches, send this fraction: the largest values, and the largest rows; "
      "the rest is kept at the worker and added to its next gradients. A worker that dies "
      "loses what it kept, so such runs may differ after a death [1]",
      [](JobConfig& c, const double& v) {
        c.mutable_training()->mutable_compression()->set_top_k(v);
      });
  Add<std::string>("--scaling", group, "Numeric columns: running (standardised) or none [running]",
                   [](JobConfig& c, const std::string& v) {
                     Training::Scaling scaling = Training::RUNNING;
                     ThrowIfError(ParseEnum(kScalings, v, scaling), "--scaling");
                     c.mutable_training()->set_scaling(scaling);
                   });
  Add<uint64_t>(
      "--freeze-after", group, "Rows from this number on are tested, not learnt from; 0: none [0]",
      [](JobConfig& c, const uint64_t& v) { c.mutable_training()->set_freeze_after_rows(v); });
  Add<uint64_t>(
      "--tail-after", group,
      "Rows from this number on are also counted apart (\"tail\"); 0: none [0]",
      [](JobConfig& c, const uint64_t& v) { c.mutable_training()->set_tail_after_rows(v); });
  Add<uint32_t>(
      "--rounds-after-end", group,
      "Buffer schedule: further rounds after the end of the stream [0]",
      [](JobConfig& c, const uint32_t& v) { c.mutable_training()->set_rounds_after_end(v); });
  Add<uint32_t>("--buffer-min", group, "Rows of the smallest buffer [128]",
                [](JobConfig& c, const uint32_t& v) {
                  c.mutable_training()->mutable_buffer()->set_min_rows(v);
                });
  Add<uint32_t>("--buffer-max", group, "Rows of the largest buffer [1024]",
                [](JobConfig& c, const uint32_t& v) {
                  c.mutable_training()->mutable_buffer()->set_max_rows(v);
                });
  Add<double>("--buffer-coefficient", group, "Rows of the buffer per row and minute [0.3]",
              [](JobConfig& c, const double& v) {
                c.mutable_training()->mutable_buffer()->set_coefficient(v);
              });
  Add<uint32_t>("--minibatch-rows", group,
                "Buffer schedule: train on so many of the newest rows; 0: all [0]",
                [](JobConfig& c, const uint32_t& v) {
                  c.mutable_training()->mutable_buffer()->set_minibatch_rows(v);
                });
  AddEmbeddings();
}

void JobFlags::AddEmbeddings() {
  const char* group = "Embedding rows (--model fm or deepfm)";
  const auto embedding = [](JobConfig& c) { return c.mutable_training()->mutable_embedding(); };
  Add<uint32_t>("--factors", group, "Factors of each row [8]",
                [=](JobConfig& c, const uint32_t& v) { embedding(c)->set_factors(v); });
  Add<std::vector<uint32_t>>("--hidden", group,
                             "A,B: deepfm's network, units of each hidden layer from its inputs on "
                             "[64,32]",
                             [](JobConfig& c, const std::vector<uint32_t>& v) {
                               c.mutable_training()->clear_hidden();
                               for (uint32_t units : v) c.mutable_training()->add_hidden(units);
                             });
  Add<double>("--embedding-init", group, "New factors are drawn evenly from [-V, V] [0.05]",
              [=](JobConfig& c, const double& v) { embedding(c)->set_initial_limit(v); });
  Add<double>("--offset", group,
              "Regression: added to every estimate; about the mean of the targets [0]",
              [=](JobConfig& c, const double& v) { embedding(c)->set_offset(v); });
  Add<uint64_t>("--embedding-seed", group,
                "What new rows are drawn by, with their ids, and deepfm's network [1]",
                [=](JobConfig& c, const uint64_t& v) { embedding(c)->set_seed(v); });
  Add<double>("--embedding-l2", group, "L2 penalty on a row each time that it is named [0]",
              [=](JobConfig& c, const double& v) { embedding(c)->set_l2(v); });
  Add<uint32_t>("--admit-after", group, "A row is stored from its n-th update on [1]",
                [=](JobConfig& c, const uint32_t& v) { embedding(c)->set_admit_after(v); });
  Add<double>(
      "--expire-after", group,
      "A row not named for so many seconds is dropped, and begins anew when it comes again; 0:\n"
      "never [0]",
      [=](JobConfig& c, const double& v) { embedding(c)->set_expire_after_s(v); });
  Add<uint32_t>(
      "--embedding-cache", group, "MiB of rows in memory, for each shard [64]",
      [](JobConfig& c, const uint32_t& v) { c.mutable_server()->set_embedding_cache_mib(v); });
  Add<uint32_t>(
      "--embedding-scratch", group,
      "MiB of rows beyond, in a scratch file in --data-dir, whose pages stay in memory while the "
      "machine has some to spare; a checkpoint under way may need as much again. Further rows are "
      "read from RocksDB. For each shard [16 times --embedding-cache]",
      [](JobConfig& c, const uint32_t& v) { c.mutable_server()->set_embedding_scratch_mib(v); });
}

void JobFlags::AddProducer() {
  const char* group = "Stream";
  Add<std::string>("--input,--data", group, "The CSV file, with a header; - is standard input",
                   [](JobConfig& c, const std::string& v) { c.mutable_producer()->set_input(v); });
  Add<std::string>(
      "--reject-file", group,
      "Malformed rows go here, with line and reason [INPUT's name + .rejects.csv]",
      [](JobConfig& c, const std::string& v) { c.mutable_producer()->set_reject_file(v); });
  Add<int64_t>("--max-rejects", group, "More malformed rows end the run; -1: no limit [-1]",
               [](JobConfig& c, const int64_t& v) { c.mutable_producer()->set_max_rejects(v); });
  Add<double>("--rate", group, "Rows per second; 0: as fast as the cluster takes them [0]",
              [](JobConfig& c, const double& v) { c.mutable_producer()->set_rate(v); });
  Add<std::string>(
      "--time-column", group, "Replay by this column of timestamps",
      [](JobConfig& c, const std::string& v) { c.mutable_producer()->set_time_column(v); });
  Add<double>("--speedup", group, "Replay so many times as fast as recorded [1]",
              [](JobConfig& c, const double& v) { c.mutable_producer()->set_speedup(v); });
  Add<uint32_t>("--epochs", group,
                "Stream the file so many times; row numbers go on. What is counted and\n"
                "evaluated while learning are the rows of the first pass [1]",
                [](JobConfig& c, const uint32_t& v) { c.mutable_producer()->set_epochs(v); });
}

void JobFlags::AddServer() {
  const char* group = "Server";
  Add<uint32_t>("--shards", group, "Shards of the job = partitions of gradients [1]",
                [](JobConfig& c, const uint32_t& v) { c.set_shards(v); });
  Add<std::vector<uint32_t>>("--server-ids", group, "Shards that this process hosts [all]",
                             [](JobConfig& c, const std::vector<uint32_t>& v) {
                               c.mutable_server()->clear_server_ids();
                               for (uint32_t id : v) c.mutable_server()->add_server_ids(id);
                             });
  Add<uint32_t>("--replicas", group,
                "Of each shard, so many of the servers behind it keep a copy [0]",
                [](JobConfig& c, const uint32_t& v) { c.mutable_server()->set_replicas(v); });
  AddReplicaServing();
  Add<std::string>("--data-dir", group, "RocksDB stores of the shards [millrace-data/server]",
                   [](JobConfig& c, const std::string& v) { c.mutable_server()->set_data_dir(v); });
  Add<double>(
      "--checkpoint-interval", group,
      "Seconds between checkpoints; more where writing them takes more than a quarter of it [1]",
      [](JobConfig& c, const double& v) { c.mutable_server()->set_checkpoint_interval_s(v); });
  Add<uint64_t>(
      "--checkpoint-records", group, "... or so many records [10000]",
      [](JobConfig& c, const uint64_t& v) { c.mutable_server()->set_checkpoint_records(v); });
  Add<std::string>(
      "--test", group, "A CSV to evaluate on, beside the training",
      [](JobConfig& c, const std::string& v) { c.mutable_server()->set_test_file(v); });
  Add<double>(
      "--evaluation-interval", group, "Seconds between evaluations [1]",
      [](JobConfig& c, const double& v) { c.mutable_server()->set_evaluation_interval_s(v); });
  Add<std::string>(
      "--evaluation-log", group,
      "timestamp;partition;vectorClock;loss;fMeasure;accuracy of each evaluation",
      [](JobConfig& c, const std::string& v) { c.mutable_server()->set_evaluation_log(v); });
  Add<std::string>(
      "--weights-file", group,
      "Dense weights go here at the end, for numpy.load; embedding rows are in snapshots",
      [](JobConfig& c, const std::string& v) { c.mutable_server()->set_weights_file(v); });
  AddFlag("--weights-at-checkpoints", group, "... and at each checkpoint [false]",
          [](JobConfig& c) { c.mutable_server()->set_weights_at_checkpoints(true); });
  Add<double>("--waiting-report", group, "Say who is waited for after so many seconds [5]",
              [](JobConfig& c, const double& v) { c.mutable_server()->set_waiting_report_s(v); });
  AddFlag("--weights-from-workers", group,
          "When no copy of a shard is left, on no disk and not in parameters: go on from the\n"
          "weights that running workers have. Optimizer state, embedding rows and what was\n"
          "counted begin anew [false: an error]",
          [](JobConfig& c) { c.mutable_server()->set_weights_from_workers(true); });
  AddFlag("--stay", group, "Stay when the stream has ended [false]",
          [](JobConfig& c) { c.mutable_server()->set_stay(true); });
  AddSnapshots();
}

void JobFlags::AddSnapshots() {
  const char* group = "Snapshots of all shards";
  AddFlag("--checkpoint-now", group,
          "Ask the running job for a snapshot, wait for it if --snapshot-dir is given, and end;\n"
          "an error if there is no such job, or if it has not begun or has ended.\n"
          "(SIGUSR1 to the ServerApp of shard 0 asks for one, too)",
          [](JobConfig& c) { c.mutable_server()->set_checkpoint_now(true); });
  Add<std::string>(
      "--snapshot-dir", group,
      "Snapshots go here, a folder each, the last one at the job's end. All servers need the same\n"
      "one, on a disk that they share [snapshots in --data-dir, and none at the end]",
      [](JobConfig& c, const std::string& v) { c.mutable_server()->set_snapshot_dir(v); });
  Add<std::string>(
      "--from-snapshot", group,
      "Begin a new job (another --job) with this snapshot, on any number of shards, and go on\n"
      "behind the rows that it has learnt from: CsvProducer sends the same rows again",
      [](JobConfig& c, const std::string& v) { c.mutable_server()->set_from_snapshot(v); });
  AddFlag("--new-stream", group, "... at the first row of another stream [false]",
          [](JobConfig& c) { c.mutable_server()->set_new_stream(true); });
}

void JobFlags::AddReplicaServing() {
  const char* group = "Replicas for servers that lost their disks (GetReplica)";
  Add<std::string>(
      "--replica-listen", group,
      "HOST:PORT to give the replicas kept here to such servers; port 0: a free one.\n"
      "Without TLS (below) whoever reaches it can read the weights: keep it in a\n"
      "network that you trust [off]",
      [](JobConfig& c, const std::string& v) { c.mutable_server()->set_replica_listen(v); });
  Add<std::string>(
      "--replica-advertise", group,
      "HOST:PORT that others dial for it; port 0: as above [as above]",
      [](JobConfig& c, const std::string& v) { c.mutable_server()->set_replica_advertise(v); });
  Add<std::string>(
      "--replica-tls-cert", group,
      "PEM file of this server's certificate, for the host that others dial [no TLS]",
      [](JobConfig& c, const std::string& v) { c.mutable_server()->set_replica_tls_cert(v); });
  Add<std::string>(
      "--replica-tls-key", group, "... and of its key",
      [](JobConfig& c, const std::string& v) { c.mutable_server()->set_replica_tls_key(v); });
  Add<std::string>(
      "--replica-tls-ca", group,
      "PEM file of the authority whose certificates both sides must show (mutual\n"
      "TLS) [anybody may fetch; servers are checked by the system's authorities]",
      [](JobConfig& c, const std::string& v) { c.mutable_server()->set_replica_tls_ca(v); });
}

void JobFlags::AddWorker() {
  const char* group = "Worker";
  Add<std::string>("--data-dir", group, "RocksDB stores of the buffers [millrace-data/worker]",
                   [](JobConfig& c, const std::string& v) { c.mutable_worker()->set_data_dir(v); });
  Add<std::string>(
      "--evaluation-log", group,
      "timestamp;partition;vectorClock;loss;fMeasure;accuracy;numTuplesSeen",
      [](JobConfig& c, const std::string& v) { c.mutable_worker()->set_evaluation_log(v); });
  Add<double>("--repeat-interval", group,
              "Seconds until what is unanswered is asked again; twice as long each time [2]",
              [](JobConfig& c, const double& v) { c.mutable_worker()->set_repeat_interval_s(v); });
  Add<double>("--session-timeout", group,
              "Seconds after which a killed process's partitions go to others [6]",
              [](JobConfig& c, const double& v) { c.mutable_worker()->set_session_timeout_s(v); });
  AddFlag("--stay", group, "Stay when the stream has ended [false]",
          [](JobConfig& c) { c.mutable_worker()->set_stay(true); });
}

StatusOr<JobConfig> JobFlags::Load() const {
  JobConfig config;
  if (!config_file_.empty()) {
    std::ifstream file(config_file_);
    std::ostringstream text;
    // An empty file, of which nothing can be put out either, is an empty configuration.
    if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
    if (!file.eof() && (!file || !text)) {
      return absl::NotFoundError("the configuration " + config_file_ + " cannot be read");
    }
    if (std::filesystem::is_directory(config_file_)) {
      return absl::NotFoundError("the configuration " + config_file_ + " is a folder");
    }
    MILLRACE_RETURN_IF_ERROR(ParseConfigText(text.str(), config_file_, config));
  }
  try {
    for (const auto& override : overrides_) override(config);
  } catch (const CLI::ValidationError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  MILLRACE_RETURN_IF_ERROR(ValidateConfig(config));
  return config;
}

Status ParseConfigText(const std::string& text, const std::string& name, JobConfig& config) {
  FirstError error(name);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &config)) return absl::InvalidArgumentError(error.text());
  return absl::OkStatus();
}

}  // namespace millrace
