#include "apps/config_checks.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include "apps/all_reduce_checks.h"
#include "apps/flag_table.h"
#include "base/host_and_port.h"
#include "base/printable.h"
#include "features/csv_format.h"
#include "features/quantile_bins.h"
#include "features/spec_checks.h"
#include "processors/policy.h"
#include "stores/training_buffer.h"
#include "tasks/class_weights.h"
#include "tasks/parameter_options.h"
#include "tasks/setting_bounds.h"
#include "tasks/task_options.h"
#include "topics/names.h"
#include "topics/parameter_layout.h"
#include "topics/partitioning.h"
#include "topics/server_groups.h"
#include "topics/topics.h"

namespace millrace {
namespace {

// As messages name a field: "l2 (--l2)", or without a flag if it has none.
std::string Named(const std::string& field, const std::string& shown) {
  const std::string flag = FlagOfField(field);
  return flag.empty() ? shown : shown + " (" + flag + ")";
}
std::string Named(const std::string& field) {
  return Named(field, field.substr(field.rfind('.') + 1));
}

constexpr double kMostClassWeight = 1e6;

// What is finite and within its bounds; each is named as in the configuration, and by its flag.
Status CheckNumbers(const JobConfig& config) {
  constexpr double kAboveZero = BoundedSetting::kAboveZero;
  constexpr double kAny = BoundedSetting::kAny;
  const auto wrong = [](const BoundedSetting& setting) {
    return absl::InvalidArgumentError(Named(setting.field, setting.field) + ": " +
                                      setting.Complaint());
  };
  if (const auto training = FirstOutOfBounds(config.training())) return wrong(*training);
  const BoundedSetting settings[] = {
      {"broker_timeout_s", config.broker_timeout_s(), 0, kAny},
      {"producer.rate", config.producer().rate(), 0, kAny},
      {"producer.speedup", config.producer().speedup(), kAboveZero, kAny},
      {"server.checkpoint_interval_s", config.server().checkpoint_interval_s(), 0, kAny},
      {"server.evaluation_interval_s", config.server().evaluation_interval_s(), 0, kAny},
      {"server.waiting_report_s", config.server().waiting_report_s(), 0, kAny},
      {"worker.repeat_interval_s", config.worker().repeat_interval_s(), 0.01, 86400},
      {"worker.session_timeout_s", config.worker().session_timeout_s(), 0.001, 3600},
      {"worker.stall_timeout_s", config.worker().stall_timeout_s(), 1, 86400},
  };
  for (const BoundedSetting& setting : settings) {
    if (!setting.is_within()) return wrong(setting);
  }
  return absl::OkStatus();
}

// (What the classes are only the published features say: ClassWeightsOf.)
Status CheckClassWeights(const Training& training) {
  if (BalancesClasses(training)) return absl::OkStatus();
  for (const std::string& entry : training.class_weight()) {
    const auto weight = ParseClassWeight(entry);
    if (weight && weight->second >= 0 && weight->second <= kMostClassWeight) continue;
    return absl::InvalidArgumentError(
        Named("training.class_weight") + ": '" + Printable(entry) +
        "' is not NAME=W, a class and a number of 0 to 1e6; give such pairs, separated by commas, "
        "or balanced alone");
  }
  return absl::OkStatus();
}

Status CheckBuffer(const Training::Buffer& buffer) {
  if (buffer.min_rows() < 1 || buffer.max_rows() < buffer.min_rows()) {
    return absl::InvalidArgumentError("buffer: 1 <= " + Named("training.buffer.min_rows") +
                                      " <= " + Named("training.buffer.max_rows") + " is needed");
  }
  if (buffer.max_rows() <= TrainingBuffer::kMaxRows) return absl::OkStatus();
  return absl::InvalidArgumentError(Named("training.buffer.max_rows", "buffer.max_rows") + ": " +
                                    std::to_string(TrainingBuffer::kMaxRows) + " at most");
}

// What is not there, or would mean something else, where rows are leased.
Status CheckSharding(const JobConfig& config) {
  const Training& training = config.training();
  if (training.sharding() != Training::DYNAMIC) {
    if (!training.has_max_workers()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        Named("training.max_workers") +
        " has no effect without --sharding dynamic: give that, too, or leave it out");
  }
  if (training.has_max_workers() &&
      (training.max_workers() < config.workers() || training.max_workers() > kMostWorkers)) {
    return absl::InvalidArgumentError(Named("training.max_workers") + ": give " +
                                      std::to_string(config.workers()) + " (--workers) to " +
                                      std::to_string(kMostWorkers));
  }
  const auto wrong = [](const std::string& field, const std::string& why) {
    return absl::InvalidArgumentError(Named(field) + " does not go together with --sharding " +
                                      "dynamic: " + why + ". Leave out one of the two");
  };
  if (training.schedule() == Training::BUFFER) {
    return wrong("training.schedule",
                 "a sliding buffer has the newest rows of a partition, and leases are of any");
  }
  if (training.freeze_after_rows() > 0) {
    return wrong("training.freeze_after_rows",
                 "a worker does not know which row of the whole stream a leased one is");
  }
  if (training.tail_after_rows() > 0) {
    return wrong("training.tail_after_rows",
                 "a worker does not know which row of the whole stream a leased one is");
  }
  if (config.server().weights_from_workers()) {
    return wrong("server.weights_from_workers",
                 "if shard 0 has lost what it counted, nobody knows which leases are done");
  }
  if (config.server().has_from_snapshot() && !config.server().new_stream()) {
    return wrong("server.from_snapshot",
                 "which rows a snapshot's workers had does not say which leases a new job would "
                 "give them; with --new-stream, which begins at the first row, it does");
  }
  return absl::OkStatus();
}

// A number that was given must be one that the consistency model allows.
Status CheckPipeline(const Training& training) {
  const auto wrong = [](const std::string& what) {
    return absl::InvalidArgumentError(Named("training.pipeline") + ": " + what);
  };
  if (!training.has_pipeline() || training.pipeline() == PipelineOf(training))
    return absl::OkStatus();
  const std::string given = std::to_string(training.pipeline());
  if (training.schedule() == Training::BUFFER) {
    return wrong("with the buffer schedule a worker has 1 update in flight, not " + given +
                 ": give --schedule one-pass, or leave it out");
  }
  if (training.consistency().model() == Training::Consistency::SEQUENTIAL) {
    return wrong(
        "a worker of a sequential job waits for each answer, so it has 1 update in flight, "
        "not " +
        given + ": give --consistency bounded:K or eventual, or leave it out");
  }
  if (training.pipeline() < 1 || training.pipeline() > kMostPipeline)
    return wrong("give 1 to " + std::to_string(kMostPipeline));
  return wrong(given + " updates in flight are up to " + std::to_string(training.pipeline() - 1) +
               " rounds of delay: give --consistency bounded:" +
               std::to_string(training.pipeline() - 1) + " or more, or a smaller number");
}

// What an online learner does not know. (REQUIRES of callers: that it is one.)
Status CheckOnline(const Training& training) {
  const auto wrong = [](const std::string& what) {
    return absl::InvalidArgumentError(Named("training.update.kind") + " online: " + what);
  };
  if (training.model() != Training::SOFTMAX) {
    return wrong("only the softmax of " + Named("training.model") +
                 " learns so: leave one of the two out");
  }
  if (training.schedule() == Training::BUFFER && training.buffer().minibatch_rows() > 0) {
    return wrong("it learns from all rows, " + Named("training.batch_rows") +
                 " at a time: leave out " + Named("training.buffer.minibatch_rows") +
                 ", or give --update gradient");
  }
  if (training.compression().values() == Training::Compression::FP16) {
    return wrong(
        "its updates hold weights, curvatures and losses, whose sizes may differ by any "
        "factor, and " +
        Named("training.compression.values") +
        " fp16 makes 0 of what is much smaller than the largest: give bf16, or --update "
        "gradient");
  }
  for (const auto& [given, field] : {std::pair(training.has_optimizer(), "training.optimizer.kind"),
                                     std::pair(training.l2() > 0, "training.l2")}) {
    if (!given) continue;
    return wrong("it finds its own rates, and " + Named(field) +
                 " and what belongs to it have no effect: leave them out, or give "
                 "--update gradient");
  }
  return absl::OkStatus();
}

// What only FTRL knows, and what it does not know.
Status CheckFtrl(const Training& training) {
  const Training::Optimizer& optimizer = training.optimizer();
  if (optimizer.kind() != Training::Optimizer::FTRL) {
    if (optimizer.l1() == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        Named("training.optimizer.l1") +
        " is a setting of the optimizer ftrl only: add --optimizer ftrl, or leave l1 out");
  }
  if (optimizer.learning_rate() > 1e6 || optimizer.learning_rate() < 1e-6) {
    return absl::InvalidArgumentError(Named("training.optimizer.learning_rate") +
                                      ": the optimizer ftrl needs one of 1e-6 to 1e6");
  }
  if (optimizer.decay() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Named("training.optimizer.decay") +
      " does not apply to the optimizer ftrl, whose rates decrease by themselves: leave it "
      "out");
}

// As librdkafka takes them: [PROTOCOL://]HOST[:PORT], with commas between. A port that is too large
// it would silently take for another one.
Status CheckBrokers(const std::string& brokers) {
  if (brokers.empty())
    return absl::InvalidArgumentError(Named("brokers") + " is empty: give HOST:PORT");
  std::istringstream list(brokers + ",");
  for (std::string broker; std::getline(list, broker, ',');) {
    broker.erase(0, broker.find_first_not_of(' '));
    broker.erase(broker.find_last_not_of(' ') + 1);
    const size_t protocol = broker.find("://");
    const std::string place = protocol == std::string::npos ? broker : broker.substr(protocol + 3);
    const bool has_port = place.rfind(':') != std::string::npos && !place.ends_with(']');
    const bool good = has_port ? IsHostAndPort(place) && !place.ends_with(":0") : !place.empty();
    if (good) continue;
    return absl::InvalidArgumentError(Named("brokers") + ": '" + broker +
                                      "' is not HOST:PORT with a port of 1 to 65535");
  }
  return absl::OkStatus();
}

Status CheckServerIds(const JobConfig& config) {
  const auto wrong = [](const std::string& what) { return absl::InvalidArgumentError(what); };
  std::set<uint32_t> ids;
  for (const uint32_t id : config.server().server_ids()) {
    if (id >= config.shards()) {
      return wrong(Named("server.server_ids") + ": " + std::to_string(id) + " is not one of " +
                   std::to_string(config.shards()) + " shards, which are numbered from 0");
    }
    if (!ids.insert(id).second)
      return wrong(Named("server.server_ids") + ": " + std::to_string(id) + " is given twice");
  }
  return absl::OkStatus();
}

Status CheckReplicas(const JobConfig& config) {
  const auto wrong = [](const std::string& what) { return absl::InvalidArgumentError(what); };
  const Server& server = config.server();
  if (server.replicas() >= config.shards() && server.replicas() > 0) {
    return wrong(Named("server.replicas") + ": " + std::to_string(server.replicas()) +
                 " is too many for " + std::to_string(config.shards()) + " shards; give at most " +
                 std::to_string(config.shards() - 1));
  }
  if (server.has_replica_listen()) {
    if (!IsHostAndPort(server.replica_listen())) {
      return wrong(Named("server.replica_listen") + ": '" + server.replica_listen() +
                   "' is not HOST:PORT");
    }
    if (server.replicas() == 0) {
      return wrong(Named("server.replica_listen") +
                   ": this server keeps no replicas to serve; give replicas (--replicas), "
                   "too");
    }
  }
  if (server.has_replica_advertise()) {
    if (!IsHostAndPort(server.replica_advertise())) {
      return wrong(Named("server.replica_advertise") + ": '" + server.replica_advertise() +
                   "' is not HOST:PORT");
    }
    if (!server.has_replica_listen()) {
      return wrong(Named("server.replica_advertise") +
                   ": this server serves no replicas; give replica_listen "
                   "(--replica-listen), too");
    }
  }
  if (server.has_replica_tls_cert() != server.has_replica_tls_key()) {
    return wrong(Named("server.replica_tls_cert") + " and " + Named("server.replica_tls_key") +
                 " belong together: give both");
  }
  if (server.has_replica_listen() && server.has_replica_tls_ca() &&
      !server.has_replica_tls_cert()) {
    return wrong(Named("server.replica_tls_ca") +
                 ": a server with replica_listen needs replica_tls_cert and replica_tls_key, "
                 "too");
  }
  if (server.has_replica_listen() && !IsLoopback(server.replica_listen()) &&
      !server.has_replica_tls_ca() && !server.replica_insecure()) {
    return wrong(Named("server.replica_listen") + ": other machines reach " +
                 server.replica_listen() +
                 ", and whoever reaches it can read the model: give --replica-tls-cert, "
                 "--replica-tls-key and --replica-tls-ca (mutual TLS), or --replica-insecure in a "
                 "network that you trust");
  }
  return absl::OkStatus();
}

Status CheckAnswers(const Answers& answers) {
  const auto wrong = [](const std::string& field, const std::string& what) {
    return absl::InvalidArgumentError(Named("answers." + field) + ": " + what);
  };
  if (!IsHostAndPort(answers.listen())) {
    return wrong("listen", "'" + answers.listen() + "' is not HOST:PORT");
  }
  if (answers.has_advertise() && !IsHostAndPort(answers.advertise())) {
    return wrong("advertise", "'" + answers.advertise() + "' is not HOST:PORT");
  }
  if (answers.has_tls_cert() != answers.has_tls_key()) {
    return wrong("tls_cert",
                 "it belongs together with " + Named("answers.tls_key") + ": give both");
  }
  if (answers.way() != Answers::DIRECT) return absl::OkStatus();
  if (answers.has_tls_ca() && !answers.has_tls_cert()) {
    return wrong("tls_ca", "a server needs tls_cert and tls_key, too");
  }
  if (IsLoopback(answers.listen()) || answers.has_tls_ca() || answers.insecure()) {
    return absl::OkStatus();
  }
  return wrong("listen", "other machines reach " + answers.listen() +
                             ", and whoever reaches it can read the model: give "
                             "--answers-tls-cert, --answers-tls-key and --answers-tls-ca (mutual "
                             "TLS), or --answers-insecure in a network that you trust");
}

// What a trainer of one's own does not use, or what it does not have yet.
Status CheckExternal(const JobConfig& config) {
  const auto wrong = [](const std::string& field) {
    return absl::InvalidArgumentError(Named(field) +
                                      " does not go together with --model external: leave it out");
  };
  const Server& server = config.server();
  if (server.has_test_file()) return wrong("server.test_file");
  if (server.weights_from_workers()) return wrong("server.weights_from_workers");
  Training training = config.training();
  SetDefaultUpdate(training);
  return CheckExternalSettings(training);
}

Status CheckEmbeddings(const JobConfig& config) {
  const auto wrong = [](const std::string& what) { return absl::InvalidArgumentError(what); };
  const Training& training = config.training();
  if (IsExternal(training)) return CheckExternal(config);
  if (training.model() == Training::NETWORK) {
    if (training.update().kind() == Training::Update::GRADIENT) return absl::OkStatus();
    return wrong("with the model network workers send gradients; give --update gradient");
  }
  if (training.schedule() != Training::ONE_PASS) {
    return wrong("the models fm and deepfm are trained in one pass; give --schedule one-pass");
  }
  if (training.update().kind() != Training::Update::GRADIENT) {
    return wrong("with the models fm and deepfm workers send gradients; give --update gradient");
  }
  if (training.embedding().factors() > 10'000)
    return wrong(Named("training.embedding.factors", "embedding.factors") + ": give 10000 at most");
  return absl::OkStatus();
}

Status CheckNetwork(const Training& training) {
  const auto wrong = [](const std::string& what) { return absl::InvalidArgumentError(what); };
  if (training.model() != Training::DEEP_FM && training.model() != Training::NETWORK) {
    if (training.hidden().empty()) return absl::OkStatus();
    return wrong(Named("training.hidden") +
                 " is a setting of the models deepfm and network only; give --model deepfm or "
                 "--model network, or leave hidden out");
  }
  if (training.model() == Training::DEEP_FM && training.embedding().factors() < 1) {
    return wrong(Named("training.embedding.factors", "embedding.factors") +
                 ": they are inputs of deepfm's network; give 1 or more");
  }
  if (training.hidden_size() > 8)
    return wrong(Named("training.hidden") + ": give 8 layers at most");
  for (const uint32_t units : training.hidden()) {
    if (units < 1 || units > 4096)
      return wrong(Named("training.hidden") + ": give each layer 1 to 4096 units");
  }
  return absl::OkStatus();
}

Status CheckProducer(const Producer& producer) {
  const auto wrong = [](const std::string& what) { return absl::InvalidArgumentError(what); };
  if (producer.epochs() < 1) return wrong(Named("producer.epochs") + ": give 1 or more");
  if (producer.rate() > 0 && !producer.time_column().empty()) {
    return wrong(Named("producer.rate") + " and " + Named("producer.time_column") +
                 " exclude each other; give one of them");
  }
  if (producer.follow() && producer.epochs() > 1) {
    return wrong(Named("producer.follow") + ": a file that is followed has no end, so " +
                 Named("producer.epochs") + " must be 1");
  }
  if (producer.follow() && producer.input() == "-") {
    return wrong(Named("producer.follow") +
                 ": standard input is read until its writer ends; leave it out, or name a file");
  }
  if (!producer.has_rows_per_turn()) return absl::OkStatus();
  if (producer.rows_per_turn() >= 1 && producer.rows_per_turn() <= Dealing::kMostRowsPerTurn) {
    return absl::OkStatus();
  }
  return wrong(Named("producer.rows_per_turn") + ": give 1 to " +
               std::to_string(Dealing::kMostRowsPerTurn));
}

Status CheckSizes(const JobConfig& config) {
  const auto wrong = [](const std::string& what) { return absl::InvalidArgumentError(what); };
  if (config.workers() < 1 || config.workers() > kMostWorkers) {
    return wrong(Named("workers") + ": give 1 to " + std::to_string(kMostWorkers));
  }
  if (config.shards() < 1 || config.shards() > kMostShards) {
    return wrong(Named("shards") + ": give 1 to " + std::to_string(kMostShards));
  }
  if (!config.has_layout()) return absl::OkStatus();
  return wrong("layout: each program finds it by itself; leave it out");
}

}  // namespace

Status CheckJob(const JobFeatures& features, const JobTraining& training) {
  const auto wrong = [](const std::string& what) {
    return absl::DataLossError("the job topic holds invalid settings: " + what +
                               ". Another program may have written them. Start a new job (another "
                               "--job)");
  };
  // The checks of the configuration that it came from.
  JobConfig config;
  config.set_name("job");
  config.set_brokers("localhost:9092");
  config.set_workers(features.workers());
  if (features.rows_per_turn() > 0) {
    config.mutable_producer()->set_rows_per_turn(features.rows_per_turn());
  }
  if (features.most_rows_per_turn() > Dealing::kMostRowsPerTurn) {
    return wrong("turns of " + std::to_string(features.most_rows_per_turn()) + " rows");
  }
  if (features.dealt_workers() > features.workers()) {
    return wrong("rows for " + std::to_string(features.dealt_workers()) + " workers of " +
                 std::to_string(features.workers()));
  }
  config.set_shards(training.shards());
  *config.mutable_training() = training.training();
  const Status valid = ValidateConfig(config);
  if (!valid.ok()) return wrong(std::string(valid.message()));
  const Status groups = CheckGroups(training, features.workers());
  if (!groups.ok()) return wrong(std::string(groups.message()));
  const FeatureSpec& spec = features.spec();
  const Status names = CheckNamesAreUtf8(spec);
  if (!names.ok()) return wrong(std::string(names.message()));
  if (spec.regression() && spec.classes_size() > 0) {
    return wrong("a regression with " + std::to_string(spec.classes_size()) + " classes");
  }
  const StatusOr<std::vector<BinnedColumn>> bins = BinnedColumns(spec);
  const Status edges = bins.ok() ? CheckBinEdges(spec, *bins) : bins.status();
  if (!edges.ok()) return wrong(std::string(edges.message()));
  const uint64_t count = features.feature_count();
  if (count < static_cast<uint64_t>(spec.numeric_size()) || count > UINT32_MAX) {
    return wrong(std::to_string(count) + " features, " + std::to_string(spec.numeric_size()) +
                 " of them numeric");
  }
  const Status model = CheckModel(features, training.training());
  if (!model.ok()) return wrong(std::string(model.message()));
  if ((count + 1) * static_cast<uint64_t>(std::max(spec.classes_size(), 1)) > kMostParameters) {
    return wrong(std::to_string(count) + " features in " + std::to_string(spec.classes_size()) +
                 " classes");
  }
  return absl::OkStatus();
}

Status CheckDataDir(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(path, error);
  while (!std::filesystem::exists(folder, error) && folder.has_relative_path()) {
    folder = folder.parent_path();  // of what is to be made, the first folder that is there
  }
  int reason = ENOTDIR;
  if (std::filesystem::is_directory(folder, error)) {
    if (access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
    reason = errno;
  }
  return absl::FailedPreconditionError(path + " (--data-dir) cannot be made or written: " +
                                       folder.string() + ": " + std::strerror(reason));
}

Status CheckReadsRows(const JobConfig& config, const std::string& program) {
  if (!IsExternal(config.training())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Named("training.model") +
      " is external: the job's trainers are programs of your own, and there "
      "are no rows that " +
      program + " could send or learn from: leave " + program +
      " out (docs/parameter-manager.md), or choose another model");
}

Status ValidateConfig(const JobConfig& config) {
  const auto wrong = [](const std::string& what) { return absl::InvalidArgumentError(what); };
  MILLRACE_RETURN_IF_ERROR(CheckJobName("job name (--job)", config.name()));
  MILLRACE_RETURN_IF_ERROR(CheckBrokers(config.brokers()));
  MILLRACE_RETURN_IF_ERROR(CheckNamesAreUtf8(config.features()));
  CsvFile::Options ignored;
  MILLRACE_RETURN_IF_ERROR(ApplyCsvFormat(config.csv(), &ignored));
  MILLRACE_RETURN_IF_ERROR(CheckNameIsUtf8("time_column", config.producer().time_column()));
  MILLRACE_RETURN_IF_ERROR(CheckSizes(config));
  if (config.replication_factor() > 1000)
    return wrong(Named("replication_factor") + ": give 0 to 1000");
  const Training& training = config.training();
  if (training.batch_rows() < 1) return wrong(Named("training.batch_rows") + ": give 1 or more");
  MILLRACE_RETURN_IF_ERROR(CheckNumbers(config));
  MILLRACE_RETURN_IF_ERROR(CheckBuffer(training.buffer()));
  if (training.consistency().model() == Training::Consistency::BOUNDED &&
      training.consistency().max_delay() < 1) {
    return wrong(Named("training.consistency") +
                 ": BOUNDED needs max_delay >= 1 (0 is SEQUENTIAL)");
  }
  MILLRACE_RETURN_IF_ERROR(CheckPipeline(training));
  MILLRACE_RETURN_IF_ERROR(CheckSharding(config));
  MILLRACE_RETURN_IF_ERROR(CheckClassWeights(training));
  Training updates = training;
  SetDefaultUpdate(updates);  // which may be online, too
  if (updates.update().kind() == Training::Update::ONLINE) {
    MILLRACE_RETURN_IF_ERROR(CheckOnline(updates));
  } else if (training.on_drift() == Training::FORGET) {
    return wrong(Named("training.on_drift") +
                 ": forget is for --update online, the default of --model softmax without settings "
                 "of the optimizer; give that, or --on-drift report");
  }
  if (training.model() != Training::SOFTMAX) MILLRACE_RETURN_IF_ERROR(CheckEmbeddings(config));
  if (config.server().embedding_cache_mib() < 1) {
    return absl::InvalidArgumentError(Named("server.embedding_cache_mib") + ": give 1 or more");
  }
  MILLRACE_RETURN_IF_ERROR(CheckNetwork(training));
  MILLRACE_RETURN_IF_ERROR(CheckFtrl(training));
  if (training.compression().top_k() < 1 &&
      training.update().kind() != Training::Update::GRADIENT) {
    return wrong(Named("training.compression.top_k", "compression.top_k") +
                 " applies to gradients only (--update gradient); weight changes are sent "
                 "completely");
  }
  if (training.update().local_iterations() < 1)
    return wrong(Named("training.update.local_iterations") + ": give 1 or more");
  MILLRACE_RETURN_IF_ERROR(CheckProducer(config.producer()));
  const Server& server = config.server();
  MILLRACE_RETURN_IF_ERROR(CheckServerIds(config));
  MILLRACE_RETURN_IF_ERROR(CheckReplicas(config));
  MILLRACE_RETURN_IF_ERROR(CheckAnswers(config.answers()));
  if (server.has_evaluation_log() && !server.has_test_file()) {
    return wrong(Named("server.evaluation_log") +
                 ": there is nothing to evaluate on; give test_file (--test), too");
  }
  if (server.weights_at_checkpoints() && !server.has_weights_file()) {
    return wrong(Named("server.weights_at_checkpoints") +
                 ": give weights_file (--weights-file), too");
  }
  if (server.new_stream() && !server.has_from_snapshot()) {
    return wrong(Named("server.new_stream") + ": give from_snapshot (--from-snapshot), too");
  }
  return CheckAllReduceConfig(config);
}

}  // namespace millrace
