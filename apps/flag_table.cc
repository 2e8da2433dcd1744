#include "apps/flag_table.h"

#include <algorithm>

#include "absl/strings/str_split.h"
#include "base/check.h"

namespace millrace {
namespace {

constexpr char kDelimiterHelp[] =
    "What separates the fields of the CSV: one character, or comma, semicolon, tab, pipe or space";
constexpr char kDelimiterDefault[] =
    "of , ; tab and | the one that the header has most often outside quotes; if none or if two are "
    "equal, the comma";

FlagGroup JobGroup() {
  return {FlagUser::kAll,
          "Job and Kafka",
          {
              {"--job", "name", "Name of the job, the prefix of its topics"},
              {"--brokers", "brokers", "HOST:PORT[,HOST:PORT...] of Kafka"},
              {"--kafka", "kafka",
               "A librdkafka setting for every client, such as security.protocol=SASL_SSL; may be "
               "repeated"},
              {"--broker-timeout", "broker_timeout_s",
               "Seconds to wait for a broker before giving up; 0 waits for ever"},
              {"--replication-factor", "replication_factor",
               "Replicas of the topics that are created; 0: the cluster's default"},
              {"--workers", "workers", "Logical workers = partitions of input-data"},
              {"--job-epoch", "epoch",
               "A number, the same for all programs of a job. A higher one starts a new job of the "
               "same name after its topics and data folders were deleted: messages of programs of "
               "the old one that still run are refused"},
          }};
}

FlagGroup FeatureGroup() {
  return {
      FlagUser::kFeatures,
      "Features",
      {
          {"--label", "features.label",
           "Column to predict: the class, or with --regression a number"},
          {"--classes", "features.classes", "The classes",
           "found by a first scan of the file, or of 100,000 records of the topic at most"},
          {"--numeric", "features.numeric", "Numeric columns, unscaled"},
          {"--categorical", "features.categorical",
           "Categorical columns and crosses of two or more (A*B, A*B*C), hashed"},
          {"--bins", "features.bins",
           "Columns of numbers to cut into bins: COLUMN, or COLUMN:N for up to N bins [16]. The "
           "edges are quantiles of the first 10,000 rows of the file (TopicSource: CsvProducer "
           "--features-only finds them), and each bin is a category; crosses "
           "and --ids have the bin. A --numeric column stays a number, too. all or all:N: every "
           "--numeric column"},
          {"--ids", "features.ids",
           "Columns and crosses (A*B) with any number of values: each value has an embedding row, "
           "with any model"},
          {"--booleans", "features.booleans",
           "Numeric columns of true and false, yes and no, t and f, y and n, on and off, or 1 and "
           "0, in any case of letters: 1 and 0. (true and false are so in any --numeric column)"},
          {"--time-features", "features.times",
           "Columns of times: ISO 8601, or seconds or milliseconds since 1970. Of a column T there "
           "are T.hour, T.weekday (1: Monday), T.month and T.days (since 1970, with a fraction), "
           "which --numeric, --categorical, --bins and --ids may name; if none of them does, the "
           "days are a numeric column and the others categorical ones"},
          {"--decimal-comma", "features.decimal_comma",
           "Numbers are written with a decimal comma, and points between groups of digits: "
           "1.234,5"},
          {"--regression", "features.regression",
           "The label is a number to be estimated, not a class"},
          {"--text", "features.text",
           "Columns of text, each hashed as scikit-learn's HashingVectorizer does, into features "
           "of its own"},
          {"--categorical-buckets", "features.categorical_buckets",
           "Hashed features of the categorical columns and bins",
           "262144, or fewer where a model of these would be large; 4096 where all weights travel "
           "with each answer: if --config has a buffer schedule, fm, deepfm, weight changes, a "
           "linear regression by gradients or an all-reduce, and with --ids unless it has other "
           "training settings"},
          {"--text-buckets", "features.text_buckets", "Hashed features of each text column",
           "262144, or fewer where a model of these would be large. Where --categorical-buckets is "
           "4096: 1024; with --schedule buffer and --update online the largest power of two with "
           "which all text columns have at most 800,000 floats (65536 of one column and two "
           "classes, 16384 of six)"},
          {"--missing", "features.missing",
           "A numeric cell without a value: mean: the column's running mean stands for it (0 "
           "if unscaled), and a feature of its own says that it is missing; mean-only: without "
           "that feature; reject: the row is rejected"},
          {"--missing-tokens", "features.missing_tokens",
           "Numeric cells that mean: no value, in any case of letters; beside the empty cell, "
           "which always does",
           "NA,N/A,#N/A,NaN,null,none,?,-"},
      }};
}

FlagGroup TrainingGroup() {
  return {
      FlagUser::kTraining,
      "Training",
      {
          {"--model", "training.model",
           "softmax: a linear model, for classes or a regression; network: a network on all "
           "columns beside a linear model, for classes or a "
           "regression; fm: a factorization machine on the id columns; deepfm: the same and a "
           "network beside it, on the ids' factors and the numeric columns; external: the named "
           "parameters of a trainer of one's own (docs/parameter-manager.md)"},
          {"--wide-above", "training.wide_above",
           "softmax and network in one pass: a model of more parameters keeps the weights of "
           "hashed features as embedding rows, and only those that a batch names are sent",
           "44000 for --update online, else 262144"},
          {"--schedule", "training.schedule",
           "one-pass: each row once, in batches; buffer: each row when it comes, and once more "
           "while none come (of gradients: the newest rows in each round)"},
          {"--batch-wait", "training.batch_wait_s",
           "One pass: for so many seconds at most rows wait for others of their batch, so that a "
           "slow stream is learnt from at once; 0: until the batch is full",
           "1; 0 of a sequential job, whose weights would else depend on when rows came"},
          {"--batch-rows", "training.batch_rows",
           "One pass, and --update online: rows of a worker's batch; smaller ones follow a "
           "changing stream better, larger ones are faster. With --update online in one pass the "
           "first have fewer: a thirty-second of the worker's rows so far, above 64 a 128th",
           "32; in one pass it grows so from 8 (network), or up to half of CsvProducer "
           "--rows-per-turn, at most 128 (--update online)"},
          {"--update", "training.update.kind",
           "What a worker sends. online: what it has learnt row by row, with adaptive learning "
           "rates; the server adds the workers' changes up. gradient: a gradient, to which the "
           "server applies --optimizer. weight-change: the change after local iterations; the "
           "server averages",
           "online for softmax, unless a setting of the optimizer, --l2, --top-k or "
           "--minibatch-rows is given; else gradient"},
          {"--solver", "training.update.solver",
           "With --update weight-change: how a worker computes the change"},
          {"--local-iterations", "training.update.local_iterations",
           "Weight changes: iterations on a batch"},
          {"--local-learning-rate", "training.update.local_learning_rate",
           "Weight changes by sgd: its learning rate"},
          {"--scaling", "training.scaling",
           "Numeric columns: running: standardised by what was seen so far; none: as they are"},
          {"--loss", "training.loss",
           "Regression: squared leads to the mean; absolute to the median; huber to the mean "
           "without the outliers"},
          {"--huber-limit", "training.huber_limit",
           "Regression by huber: an error beyond so many times the mean absolute error counts as "
           "an outlier"},
          {"--class-weight", "training.class_weight",
           "NAME=W,... or balanced. NAME=W: multiply the loss of these classes' rows by W (others: "
           "1); balanced: W is inversely proportional to how frequent the class has been so far, "
           "at "
           "most 100"},
          {"--freeze-after", "training.freeze_after_rows",
           "Rows from this number on are tested, not trained on; 0: none"},
          {"--tail-after", "training.tail_after_rows",
           "Rows from here on are also evaluated separately (\"tail\"); 0: as --freeze-after"},
          {"--on-drift", "training.on_drift",
           "When the stream has changed. report: every display says so; forget: servers also raise "
           "the decaying learning rates of --update online again, so that it is learnt faster"},
      }};
}

FlagGroup WorkersGroup() {
  return {
      FlagUser::kTraining,
      "Logical workers",
      {
          {"--sharding", "training.sharding",
           "Which rows a logical worker learns from. static: those of its partition; dynamic: "
           "ranges that MasterApp leases to it, so that a slow worker gets fewer "
           "(docs/leases.md)"},
          {"--max-workers", "training.max_workers",
           "With --sharding dynamic: logical workers that the job may be given while it runs "
           "(MasterApp resize)",
           "four times --workers, and at least 16"},
          {"--consistency,--max-vector-clock-delay,--max_vector_clock_delay",
           "training.consistency",
           "sequential, eventual, bounded:K; or the maximum delay in rounds: 0 (sequential), -1 "
           "(eventual), K",
           "sequential"},
          {"--pipeline", "training.pipeline",
           "Bounded and eventual jobs: updates of a worker that may be under way at once; each one "
           "more counts as a round of delay",
           "2"},
          {"--distribution-strategy", "training.distribution_strategy",
           "ParameterServer: ServerApps have the weights; AllReduce: there are no servers, each "
           "WorkerApp has all weights, and they sum the updates (MasterApp; docs/all-reduce.md)"},
      }};
}

FlagGroup BufferGroup() {
  return {
      FlagUser::kTraining,
      "The buffer of --schedule buffer",
      {
          {"--rounds-after-end", "training.rounds_after_end",
           "Buffer schedule: further rounds after the end of the stream",
           "30 for gradients, else 0"},
          {"--buffer-min", "training.buffer.min_rows", "Rows of the smallest buffer"},
          {"--buffer-max", "training.buffer.max_rows",
           "Rows of the largest buffer. With fewer than a record has (1000 where they come fast) "
           "gradients miss rows, and online learners repeat some while others still wait"},
          {"--buffer-coefficient", "training.buffer.coefficient",
           "The buffer's target size is this times the rows per minute, between --buffer-min and "
           "--buffer-max"},
          {"--minibatch-rows", "training.buffer.minibatch_rows",
           "Buffer schedule, not --update online: train on so many of the newest rows; 0: all"},
          {"--skip-rows", "training.buffer.skip_rows",
           "Buffer schedule: newer rows may replace rows that no update has used; without it, rows "
           "that come faster than they are learnt from wait in Kafka"},
      }};
}

FlagGroup OptimizerGroup() {
  return {
      FlagUser::kTraining,
      "Optimizer, and what workers send to it",
      {
          {"--optimizer", "training.optimizer.kind",
           "ftrl: FTRL-Proximal for the linear part, with AdaGrad for factors and networks"},
          {"--learning-rate", "training.optimizer.learning_rate", "Learning rate of the optimizer",
           "0.3; for adagrad and ftrl 0.05 with --model fm or deepfm, 0.025 with network"},
          {"--decay", "training.optimizer.decay", "Step t uses learning-rate / (1 + decay * t)"},
          {"--ftrl-beta", "training.optimizer.ftrl_beta",
           "FTRL: a weight's rate is learning-rate / (beta + square root of the sum of its squared "
           "gradients)"},
          {"--l1", "training.optimizer.l1",
           "FTRL: L1 penalty; the higher, the more weights are exactly 0"},
          {"--l2", "training.l2",
           "L2 penalty added to the mean loss; FTRL: added to the sum of all steps' losses"},
          {"--compress", "training.compression.values",
           "Values of updates on their way to the server: none: 32 bits; fp16 (not with --update "
           "online), bf16: half the bytes. A sequential one-pass run still ends in the same bytes, "
           "whichever program is killed"},
          {"--top-k", "training.compression.top_k",
           "Of the values and embedding rows that a batch changes, send this fraction, the "
           "largest; the worker keeps the rest and adds it to its next gradients. A worker that is "
           "killed loses what it kept, so such runs may differ after a failure"},
      }};
}

FlagGroup EmbeddingGroup() {
  return {
      FlagUser::kTraining,
      "Embedding rows and networks (--ids, --wide-above, --model)",
      {
          {"--factors", "training.embedding.factors", "fm and deepfm: factors of each row"},
          {"--hidden", "training.hidden",
           "deepfm and network: units of each hidden layer from the inputs on", "64,32"},
          {"--embedding-init", "training.embedding.initial_limit",
           "New factors, and a network's new weights of ids and hashed features, are drawn evenly "
           "from minus this number to it"},
          {"--embedding-seed", "training.embedding.seed",
           "Seed of the initial values of rows (together with their ids) and of networks"},
          {"--embedding-l2", "training.embedding.l2",
           "L2 penalty on a row, each time that a batch names it"},
          {"--admit-after", "training.embedding.admit_after",
           "An embedding row gets values with its n-th update; before it, updates are only "
           "counted"},
          {"--expire-after", "training.embedding.expire_after_s",
           "A row that no batch has named for so many seconds is dropped, and starts again from "
           "its initial values when it is named again; 0: never"},
          {"--embedding-cache", "server.embedding_cache_mib",
           "MiB of rows in memory, for each shard"},
          {"--embedding-scratch", "server.embedding_scratch_mib",
           "MiB of further rows in a scratch file in --data-dir, which the system keeps in memory "
           "while it has free memory; a checkpoint under way may need as much again. Rows beyond "
           "these are read from RocksDB. For each shard",
           "16 times --embedding-cache"},
      }};
}

FlagGroup StreamGroup() {
  return {
      FlagUser::kProducer,
      "Stream",
      {
          {"--input,--data", "producer.input",
           "The CSV file, with a header, perhaps compressed by gzip or zstd; - is standard input"},
          {"--delimiter", "csv.delimiter", kDelimiterHelp, kDelimiterDefault},
          {"--encoding", "csv.encoding",
           "Encoding of the input: latin1 is windows-1252, of which ISO 8859-1 is a part"},
          {"--follow", "producer.follow",
           "At the end of the file wait for further lines, as tail -f does, until Ctrl-C or "
           "SIGTERM. The stream has no end then"},
          {"--reject-file", "producer.reject_file", "File for malformed rows, with line and reason",
           "INPUT's name + .rejects.csv"},
          {"--max-rejects", "producer.max_rejects",
           "More malformed rows end the run; -1: no limit"},
          {"--rate", "producer.rate", "Rows per second; 0: as fast as the cluster takes them"},
          {"--time-column", "producer.time_column", "Replay by this column of timestamps"},
          {"--speedup", "producer.speedup", "Replay this many times as fast as recorded"},
          {"--rows-per-turn", "producer.rows_per_turn",
           "So many consecutive rows go to one logical worker, then as many to the next. Many: a "
           "row is learnt right after its neighbours, by the same worker; few: where rows come "
           "slowly, no worker waits long for its turn",
           "256, in a long stream up to 1,024; with --rate those of a tenth of a second, 32 at "
           "most; 1 with --time-column, --follow, --features-only or a pipe. If the level of "
           "the first 20,000 labels moves (docs/learning.md), worker 0 gets all rows"},
          {"--epochs", "producer.epochs",
           "Stream the file so many times; row numbers continue. Only rows of the first pass are "
           "counted and evaluated while training"},
      }};
}

FlagGroup ServerProgramGroup() {
  return {
      FlagUser::kServer,
      "Server",
      {
          {"--shards", "shards", "Shards of the job = partitions of gradients"},
          {"--server-ids", "server.server_ids", "Shards that this process hosts", "all"},
          {"--replicas", "server.replicas",
           "Number of copies of each shard, kept by the next servers in the ring"},
          {"--data-dir", "server.data_dir", "RocksDB stores of the shards"},
          {"--checkpoint-interval", "server.checkpoint_interval_s",
           "Seconds between checkpoints; longer if writing them would take more than a quarter of "
           "the time"},
          {"--checkpoint-records", "server.checkpoint_records",
           "Write a checkpoint also after so many records"},
          {"--test", "server.test_file",
           "A CSV to evaluate on while training, perhaps compressed by gzip or zstd"},
          {"--delimiter", "csv.delimiter", kDelimiterHelp, kDelimiterDefault},
          {"--encoding", "csv.encoding",
           "Encoding of --test: latin1 is windows-1252, of which ISO 8859-1 is a part"},
          {"--evaluation-interval", "server.evaluation_interval_s", "Seconds between evaluations"},
          {"--evaluation-every", "server.evaluation_every",
           "Evaluate whenever shard 0 has made so many more steps, which are rounds in a "
           "sequential "
           "job and else updates, instead of by --evaluation-interval. 0: by "
           "--evaluation-interval"},
          {"--evaluation-log", "server.evaluation_log",
           "CSV file with a line for each evaluation of --test: "
           "timestamp;partition;vectorClock;loss;fMeasure;accuracy;rmse;prior_rmse;mae;r2;auc;"
           "pr_auc;calibration_error"},
          {"--weights-file", "server.weights_file",
           "File for the dense weights, for numpy.load; written at the end, and on a clean stop "
           "(Ctrl-C, SIGTERM). Embedding rows, and all else that a prediction needs, are in the "
           "model "
           "that --snapshot-dir gets"},
          {"--weights-at-checkpoints", "server.weights_at_checkpoints",
           "Write --weights-file at each checkpoint, too"},
          {"--waiting-report", "server.waiting_report_s",
           "Log the workers that a shard waits for after so many seconds"},
          {"--weights-from-workers", "server.weights_from_workers",
           "When no copy of a shard is left, on no disk and not in parameters: continue from the "
           "weights that running workers have, without optimizer state, embedding rows and "
           "counters. Without this flag it is an error"},
          {"--dead-letter-reasons-only", "server.dead_letter_reasons_only",
           "Of a record that cannot be used, keep the place and the reason in dead-letter, not the "
           "record: for rows that nobody else may read. For the whole job"},
          {"--stay", "server.stay", "Keep running when the job has ended, until Ctrl-C or SIGTERM"},
      }};
}

FlagGroup ReplicaGroup() {
  return {
      FlagUser::kServer,
      "Replicas for servers that lost their disks (GetReplica)",
      {
          {"--replica-listen", "server.replica_listen",
           "HOST:PORT to serve this server's replicas at; port 0: a free one. One that "
           "other machines reach needs mutual TLS (the three files below) or --replica-insecure",
           "off"},
          {"--replica-advertise", "server.replica_advertise",
           "HOST:PORT that other servers connect to for them; port 0: the port of --replica-listen",
           "--replica-listen"},
          {"--replica-tls-cert", "server.replica_tls_cert",
           "PEM file of this server's certificate, for the host that others connect to", "no TLS"},
          {"--replica-tls-key", "server.replica_tls_key",
           "Its private key, PEM (with --replica-tls-cert)"},
          {"--replica-tls-ca", "server.replica_tls_ca",
           "PEM file of the authority whose certificates both sides must show (mutual TLS)",
           "no client certificate is asked for; servers are verified with the system's "
           "authorities"},
          {"--replica-insecure", "server.replica_insecure",
           "Serve and fetch replicas over the network without mutual TLS: whoever reaches the "
           "address can read the model, and whoever can write to the job topic can offer a forged "
           "replica"},
      }};
}

std::vector<Flag> AnswerTlsFlags() {
  return {
      {"--answers-tls-cert", "answers.tls_cert",
       "PEM file of this program's certificate; of a ServerApp, for the host that workers connect "
       "to",
       "no TLS"},
      {"--answers-tls-key", "answers.tls_key", "Its private key, PEM (with --answers-tls-cert)"},
      {"--answers-tls-ca", "answers.tls_ca",
       "PEM file of the authority whose certificates both sides must show (mutual TLS)",
       "no client certificate is asked for; servers are verified with the system's authorities"},
      {"--answers-insecure", "answers.insecure",
       "Streams of answers over the network without mutual TLS: whoever reaches the address can "
       "read the model, and whoever can write to the job topic can send workers a forged one"},
  };
}

FlagGroup StraightAnswerGroup() {
  FlagGroup group{
      FlagUser::kServer,
      "Straight answers",
      {
          {"--answers", "answers.way",
           "kafka: WorkerApps and trainers get their answers by the topic weights; direct: by a "
           "stream from this server, and by the topic where there is none"},
          {"--answers-listen", "answers.listen",
           "HOST:PORT to serve the streams at; port 0: a free one. One that other machines reach "
           "needs mutual TLS (the three files below) or --answers-insecure"},
          {"--answers-advertise", "answers.advertise",
           "HOST:PORT that workers connect to for them; port 0: the port of --answers-listen",
           "--answers-listen"},
      }};
  for (const Flag& flag : AnswerTlsFlags()) group.flags.push_back(flag);
  return group;
}

FlagGroup TakenAnswersGroup() {
  return {FlagUser::kWorker, "Answers that come straight from servers", AnswerTlsFlags()};
}

FlagGroup SnapshotGroup() {
  return {
      FlagUser::kServer,
      "Snapshots of all shards",
      {
          {"--checkpoint-now", "server.checkpoint_now",
           "Request a snapshot of the running job, wait for it if --snapshot-dir is given, and "
           "exit; an error if there is no such job, or if it has not started or has ended. "
           "(SIGUSR1 to the ServerApp of shard 0 requests one, too)"},
          {"--snapshot-dir", "server.snapshot_dir",
           "Snapshots are written here, a folder each, the last one at the job's end. Each has the "
           "model to be taken away, in the folder model. All servers need the same "
           "--snapshot-dir, on a disk that they share",
           "requested snapshots in --data-dir, and none at the end"},
          {"--snapshot-every", "training.snapshot_every",
           "With --snapshot-dir: a snapshot is also begun whenever shard 0 has made so many more "
           "steps, which are rounds in a sequential job and else updates. 0: none"},
          {"--snapshots-kept", "server.snapshots_kept",
           "With --snapshot-dir: so many of the job's snapshots are kept, the newest, and that of "
           "its end; older ones are removed. 0: all are kept"},
          {"--from-snapshot", "server.from_snapshot",
           "Start a new job (another --job) from this snapshot, on any number of shards, and "
           "continue after the rows that it was trained on: CsvProducer sends the same rows again"},
          {"--new-stream", "server.new_stream",
           "With --from-snapshot: start at the first row of another stream"},
      }};
}

FlagGroup WorkerGroup() {
  return {
      FlagUser::kWorker,
      "Worker",
      {
          {"--data-dir", "worker.data_dir", "RocksDB stores of the buffers"},
          {"--evaluation-log", "worker.evaluation_log",
           "CSV file with a line for each batch: "
           "timestamp;partition;vectorClock;loss;fMeasure;accuracy;numTuplesSeen;rmse;prior_rmse;"
           "mae;r2;auc;pr_auc;calibration_error"},
          {"--repeat-interval", "worker.repeat_interval_s",
           "Seconds until an unanswered update is sent again; twice as long each time"},
          {"--session-timeout", "worker.session_timeout_s",
           "Seconds after which the partitions of a killed process go to others; no effect on "
           "processes that MasterApp starts"},
          {"--stall-timeout", "worker.stall_timeout_s",
           "Seconds without progress after which a process loses its partitions to others; one "
           "that MasterApp has started ends itself"},
          {"--master-address", "worker.master_address",
           "HOST:PORT of MasterApp, of a job that trains by all-reduce"},
          {"--listen-host", "worker.listen_host",
           "All-reduce: an address of this machine that the other WorkerApps reach"},
          {"--stay", "worker.stay", "Keep running when the job has ended, until Ctrl-C or SIGTERM"},
      }};
}

FlagGroup MasterGroup() {
  return {
      FlagUser::kMaster,
      "Processes",
      {
          {"--topology", "topology",
           "The job's processes: how many servers and workers, how many shards and logical "
           "workers each of them hosts, where servers serve replicas, and which groups of servers "
           "exchange deltas (docs/topologies.md)",
           "by --server-processes, --worker-processes and the others"},
      }};
}

const char* ProgramOf(FlagUser user) {
  switch (user) {
    case FlagUser::kAll:
      return "every program";
    case FlagUser::kFeatures:
    case FlagUser::kProducer:
      return "CsvProducer";
    case FlagUser::kTraining:
    case FlagUser::kServer:
      return "ServerApp";
    case FlagUser::kWorker:
      return "WorkerApp";
    case FlagUser::kMaster:
      return "MasterApp";
  }
  MILLRACE_CHECK(false);
}

}  // namespace

const std::vector<FlagGroup>& FlagGroups() {
  static const auto* const groups = new std::vector<FlagGroup>{
      JobGroup(),           FeatureGroup(),      TrainingGroup(),       WorkersGroup(),
      BufferGroup(),        OptimizerGroup(),    EmbeddingGroup(),      StreamGroup(),
      ServerProgramGroup(), ReplicaGroup(),      StraightAnswerGroup(), SnapshotGroup(),
      WorkerGroup(),        TakenAnswersGroup(), MasterGroup()};
  return *groups;
}

std::string FlagOfField(const std::string& field) {
  for (const FlagGroup& group : FlagGroups()) {
    for (const Flag& flag : group.flags) {
      const std::vector<std::string> names = absl::StrSplit(flag.name, ',');
      if (flag.field == field) return names.front();
    }
  }
  return "";
}

std::string ProgramWithFlag(const std::string& name) {
  for (const FlagGroup& group : FlagGroups()) {
    for (const Flag& flag : group.flags) {
      const std::vector<std::string> names = absl::StrSplit(flag.name, ',');
      if (std::find(names.begin(), names.end(), name) != names.end()) return ProgramOf(group.user);
    }
  }
  return "";
}

}  // namespace millrace
