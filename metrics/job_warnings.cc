#include "metrics/job_warnings.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/batch_growth.h"
#include "base/grouped_number.h"
#include "metrics/source_counts.h"

namespace millrace {
namespace {

using ProducerPoint = MetricPoint::ProducerProgress;
using ServerPoint = MetricPoint::ServerProgress;
using Warnings = std::vector<JobWarning>;

// Rounds in which workers average their weights: with fewer, a fifth of the rows or more is tested
// by weights that have learnt nothing.
constexpr uint64_t kFewAverages = 5;
// Of so few rows no share is told before the last one is known.
constexpr uint64_t kRowsOfAShare = 1000;

// "120 of 10,000 rows"
std::string PartOfRows(uint64_t part, uint64_t whole) {
  return absl::StrCat(GroupedNumber(part), " of ", GroupedNumber(whole),
                      whole == 1 ? " row" : " rows");
}

// "(1.2 %)"
std::string ShareText(uint64_t part, uint64_t whole) {
  const double percent = 100 * static_cast<double>(part) / static_cast<double>(whole);
  return percent < 9.95 ? absl::StrFormat("(%.1f %%)", percent)
                        : absl::StrFormat("(%.0f %%)", percent);
}

void AddCount(uint64_t count, const std::string& kind, const std::string& one,
              const std::string& many, const std::string& remedy, Warnings& warnings) {
  if (count == 0) return;
  warnings.push_back(
      {kind, absl::StrCat(GroupedNumber(count), " ", count == 1 ? one : many), remedy});
}

void AddRejected(const ProducerPoint& producer, uint64_t rows_read, Warnings& warnings) {
  const uint64_t rejected = producer.rows_rejected();
  const bool known = producer.ended() || rows_read >= kRowsOfAShare;
  if (!known || rejected <= rows_read / 100) {
    AddCount(rejected, "rows_rejected", "row rejected", "rows rejected", "", warnings);
    return;
  }
  warnings.push_back(
      {"rows_rejected",
       absl::StrCat(PartOfRows(rejected, rows_read), " rejected ", ShareText(rejected, rows_read)),
       absl::StrCat(SourceCountsOf(producer) ? "the topic dead-letter has them, with the reason"
                                             : "CsvProducer's reject file (--reject-file) says why",
                    "; cells that mean \"no value\" can be named by --missing-tokens, classes by "
                    "--classes")});
}

void AddUnlabelled(const ProducerPoint& producer, Warnings& warnings) {
  const std::optional<SourceState> source = SourceCountsOf(producer);
  if (!source || !source->has_labels()) return;
  const SourceState::Labels& labels = source->labels();
  const uint64_t rows = JoinedRows(labels);
  const uint64_t without = labels.unmatched();
  const bool known = producer.ended() || rows >= kRowsOfAShare;
  const bool is_much = labels.defaulted() > 0 ? labels.matched() == 0 : without > rows / 100;
  if (!known || !is_much) return;
  const uint64_t unlabelled = without + labels.defaulted();
  warnings.push_back(
      {"rows_unlabelled",
       absl::StrCat(PartOfRows(unlabelled, rows), " got no label from another topic ",
                    ShareText(unlabelled, rows)),
       "check TopicSource --join-key and --join-window"});
}

void AddUnusableTests(const JobProgress& job, Warnings& warnings) {
  if (!job.holdout() || job.test_rows_rejected() == 0) return;
  const uint64_t rows = job.test_rows_rejected() + job.holdout()->rows();
  warnings.push_back({"test_rows_rejected",
                      absl::StrCat(PartOfRows(job.test_rows_rejected(), rows),
                                   " of the --test file cannot be used"),
                      "the held-out figures leave them out; ServerApp's log names the first one "
                      "and the reason"});
}

// On sliding buffers: rows whose fate is known. (What is in a buffer may still be used.)
uint64_t RowsPastTheBuffers(const JobProgress& job) {
  const ServerPoint& server = *job.server();
  if (job.ended()) {
    if (!job.producer() || !job.producer()->ended()) return 0;
    return job.rows_read() - std::min(job.rows_read(), job.producer()->rows_rejected());
  }
  // Rows of later passes are counted, too, but are no new ones.
  if (job.producer() && job.producer()->epochs_of_stream() > 1) return 0;
  uint64_t buffered = 0;
  for (const WorkerProgress& worker : server.workers()) buffered += worker.buffer_rows();
  const uint64_t past = server.rows_counted() - std::min(server.rows_counted(), buffered);
  return past < kRowsOfAShare ? 0 : past;
}

// Of these the ones to be trained on.
uint64_t RowsToTrainOn(const JobProgress& job) {
  const uint64_t rows = RowsPastTheBuffers(job);
  const uint64_t freeze = job.server()->training().freeze_after_rows();
  return freeze > 0 ? std::min(rows, freeze) : rows;
}

void AddUntrained(const JobProgress& job, Warnings& warnings) {
  if (job.server()->training().schedule() != Training::BUFFER) return;
  const uint64_t rows = RowsToTrainOn(job);
  const uint64_t trained = job.server()->rows_trained();
  // A stream that is a tenth shorter makes hardly a worse model (docs/failures.md).
  if (rows == 0 || trained >= rows - rows / 10) return;
  warnings.push_back(
      {"rows_untrained",
       absl::StrCat("only ", PartOfRows(trained, rows), " ", ShareText(trained, rows),
                    " were ever trained on: newer ones took their places in the sliding buffers"),
       "leave out ServerApp --skip-rows and --minibatch-rows, raise --buffer-max, send the stream "
       "more slowly (CsvProducer --rate), or give --schedule one-pass"});
}

// Every worker's update of a round is one step together, or each update is one.
bool StepsInRounds(const Training& training) {
  return training.consistency().model() == Training::Consistency::SEQUENTIAL;
}

uint64_t StepsMade(const ServerPoint& server) {
  if (StepsInRounds(server.training())) return server.rounds();
  return server.updates() / std::max<uint32_t>(server.shards(), 1);
}

// Of a one-pass job.
uint64_t RowsOfAStep(const Training& training, uint32_t workers) {
  return uint64_t{std::max<uint32_t>(training.batch_rows(), 1)} *
         (StepsInRounds(training) ? std::max<uint32_t>(workers, 1) : 1);
}

// Updates of each worker in one pass, up to kFewSteps: as many as rounds, where there are rounds.
uint64_t RoundsOfStream(const Training& training, uint64_t rows, uint32_t workers) {
  const uint64_t most = std::max<uint32_t>(training.batch_rows(), 1);
  const uint64_t parts = std::max<uint32_t>(workers, 1);
  const uint64_t first = training.first_batch_rows();
  const uint64_t least = first == 0 ? most : std::min(first, most);
  uint64_t rounds = 0;
  for (uint64_t begin = 0; begin * parts < rows && rounds < kFewSteps; ++rounds) {
    begin += std::clamp(GrownBatchRows(begin), least, most);
  }
  return rounds;
}

// Of a one-pass job, up to kFewSteps.
uint64_t StepsOfStream(const Training& training, uint64_t rows, uint32_t workers) {
  if (StepsInRounds(training)) return RoundsOfStream(training, rows, workers);
  if (training.first_batch_rows() > 0) {
    const uint64_t parts = std::max<uint32_t>(workers, 1);
    return std::min(kFewSteps, parts * RoundsOfStream(training, rows, workers));
  }
  const uint64_t of_a_step = RowsOfAStep(training, workers);
  return rows / of_a_step + (rows % of_a_step > 0 ? 1 : 0);
}

// "1 time", "7 times"
std::string Times(uint64_t count) { return absl::StrCat(count, count == 1 ? " time" : " times"); }

// "1,000 rows, up to 400 in a round"
std::string RowsOfRounds(const Training& training, uint64_t rows, uint32_t workers) {
  const uint64_t of_a_round =
      uint64_t{std::max<uint32_t>(training.batch_rows(), 1)} * std::max<uint32_t>(workers, 1);
  return absl::StrCat(GroupedNumber(rows), " rows, up to ", GroupedNumber(of_a_round),
                      " in a round");
}

// A learner that goes through its rows one by one learns from a batch of any size; what suffers is
// only what the workers know of one another. One worker misses nothing, and batches that begin with
// one row cannot be smaller.
void AddFewExchanges(const Training& training, uint64_t rows, uint32_t workers,
                     Warnings& warnings) {
  const bool is_small =
      !training.has_batch_rows() || training.batch_rows() <= 1 || training.first_batch_rows() == 1;
  if (workers <= 1 || is_small || rows == 0) return;
  const uint64_t rounds = RoundsOfStream(training, rows, workers);
  if (rounds >= kFewSteps) return;
  warnings.push_back(
      {"few_rounds",
       absl::StrCat("the ", workers, " workers share what they have learnt only ", Times(rounds),
                    ": ", RowsOfRounds(training, rows, workers)),
       "lower ServerApp --batch-rows, or leave it out; or take fewer --workers: one alone misses "
       "nothing"});
}

// Workers iterate on a batch, so few rounds make a model; many rounds of few rows make no better
// one. But a batch is tested by the weights before it.
void AddFewAverages(const Training& training, uint64_t rows, uint32_t workers, Warnings& warnings) {
  const uint64_t rounds = RoundsOfStream(training, rows, workers);
  if (rounds >= kFewAverages || rows == 0) return;
  warnings.push_back(
      {"few_rounds",
       absl::StrCat("the workers' weights are averaged only ", Times(rounds), ": ",
                    RowsOfRounds(training, rows, workers),
                    "; the first round is tested by weights that have learnt nothing, and the "
                    "progressive figures are those of so few models"),
       "lower ServerApp --batch-rows, so that there are some ten rounds, take fewer --workers, or "
       "judge the model by a held-out file (ServerApp --test)"});
}

void AddShortStream(const ProducerPoint& producer, const Training& training, uint32_t workers,
                    Warnings& warnings) {
  if (training.schedule() != Training::ONE_PASS || !producer.ended()) return;
  uint64_t rows = producer.rows_sent();
  if (training.freeze_after_rows() > 0) rows = std::min(rows, training.freeze_after_rows());
  if (training.update().kind() == Training::Update::ONLINE) {
    return AddFewExchanges(training, rows, workers, warnings);
  }
  if (training.update().kind() == Training::Update::WEIGHT_CHANGE) {
    return AddFewAverages(training, rows, workers, warnings);
  }
  const uint64_t of_a_step = RowsOfAStep(training, workers);
  const uint64_t steps = StepsOfStream(training, rows, workers);
  if (steps >= kFewSteps) return;
  warnings.push_back(
      {"few_steps",
       absl::StrCat("the stream gives only ", steps,
                    steps == 1 ? " optimizer step: " : " optimizer steps: ", GroupedNumber(rows),
                    " rows, up to ", GroupedNumber(of_a_step), " in a step"),
       "lower ServerApp --batch-rows, take fewer --workers, or send the file "
       "several times (CsvProducer --epochs)"});
}

// Those that have left without an update had none. At least 1.
uint32_t WorkersWithRows(const ServerPoint& server) {
  const auto has_rows = [](const WorkerProgress& worker) {
    return !worker.left() || worker.clock() > 0;
  };
  const auto count = std::ranges::count_if(server.workers(), has_rows);
  return static_cast<uint32_t>(std::max<ptrdiff_t>(count, 1));
}

// How often each worker has heard of the others.
uint64_t RoundsMade(const ServerPoint& server) {
  const uint64_t workers = WorkersWithRows(server);
  return StepsInRounds(server.training()) ? StepsMade(server) : StepsMade(server) / workers;
}

// On sliding buffers a step uses all rows that have come since the last one, so where rows come
// fast there are few, however many rows have come. (50 steps on 20,000 texts, of which one pass
// makes 625, cost .09 of the accuracy; 35 of 156 cost .18.)
void AddFewStepsOnBuffers(const JobProgress& job, Warnings& warnings) {
  const ServerPoint& server = *job.server();
  const uint64_t steps = StepsMade(server);
  const uint64_t rows = RowsToTrainOn(job);
  const uint64_t of_one_pass = rows / RowsOfAStep(server.training(), WorkersWithRows(server));
  const bool too_few_for_rows = 4 * steps < of_one_pass;
  if (steps >= kFewSteps && !too_few_for_rows) return;
  std::string text = absl::StrCat(
      "only ", steps, steps == 1 ? " optimizer step was made" : " optimizer steps were made");
  if (too_few_for_rows) {
    absl::StrAppend(&text, ": of the ", GroupedNumber(rows), " rows that came one pass makes ",
                    GroupedNumber(of_one_pass));
  }
  warnings.push_back({"few_steps", text,
                      "send the stream more slowly (CsvProducer --rate), or give ServerApp "
                      "--rounds-after-end or --schedule one-pass"});
}

void AddFewRoundsOnBuffers(const ServerPoint& server, Warnings& warnings) {
  const Training& training = server.training();
  const uint64_t rounds = RoundsMade(server);
  const uint32_t workers = WorkersWithRows(server);
  if (training.update().kind() == Training::Update::WEIGHT_CHANGE) {
    if (rounds >= kFewAverages) return;
    warnings.push_back({"few_rounds",
                        absl::StrCat("the workers' weights were averaged only ", Times(rounds)),
                        "send the stream more slowly (CsvProducer --rate), or give ServerApp "
                        "--rounds-after-end"});
    return;
  }
  // (Of one row at a time there are as many as there can be.)
  if (workers <= 1 || training.batch_rows() <= 1 || rounds >= kFewSteps) return;
  warnings.push_back(
      {"few_rounds",
       absl::StrCat("the ", workers, " workers shared what they had learnt only ", Times(rounds)),
       "lower ServerApp --batch-rows, give --schedule one-pass, whose batches begin with one row, "
       "or take fewer --workers: one alone misses nothing"});
}

void AddFewSteps(const JobProgress& job, Warnings& warnings) {
  const ServerPoint& server = *job.server();
  const Training& training = server.training();
  if (training.schedule() == Training::ONE_PASS) {
    if (job.producer()) {
      AddShortStream(*job.producer(), training, WorkersWithRows(server), warnings);
    }
    return;
  }
  if (!job.ended()) return;
  if (training.update().kind() == Training::Update::GRADIENT) {
    AddFewStepsOnBuffers(job, warnings);
  } else {
    AddFewRoundsOnBuffers(server, warnings);
  }
}

void AddEvents(const ServerPoint& server, Warnings& warnings) {
  AddCount(server.undecodable_rows(), "undecodable_rows", "row undecodable", "rows undecodable",
           "the topic dead-letter has them, with the reason", warnings);
  AddCount(server.non_finite_updates(), "non_finite_updates", "non-finite update",
           "non-finite updates", "they were left out; lower --learning-rate", warnings);
  AddCount(server.refused(), "refused", "record refused", "records refused",
           "the topic dead-letter has them, with the reason", warnings);
  AddCount(server.aborted_checkpoints(), "aborted_checkpoints", "checkpoint aborted",
           "checkpoints aborted in a row", "ServerApp's log says why", warnings);
  AddCount(server.duplicates_ignored(), "duplicates_ignored", "duplicate ignored",
           "duplicates ignored", "", warnings);
  AddCount(server.time_jumps(), "time_jumps", "timestamp jump", "timestamp jumps", "", warnings);
}

void AddVersions(const JobProgress& job, Warnings& warnings) {
  std::set<std::string> all;
  std::vector<std::string> programs;
  for (const auto& [program, versions] : job.versions()) {
    all.insert(versions.begin(), versions.end());
    programs.push_back(absl::StrCat(program, " ", absl::StrJoin(versions, ", ")));
  }
  if (all.size() < 2) return;
  warnings.push_back({"versions",
                      absl::StrCat("programs of different versions have written to metrics: ",
                                   absl::StrJoin(programs, "; ")),
                      "restart those that still have another version; the warning stays as long as "
                      "the old records do (7 days)"});
}

}  // namespace

std::vector<JobWarning> WarningsOf(const JobProgress& job) {
  Warnings warnings;
  if (job.producer()) AddRejected(*job.producer(), job.rows_read(), warnings);
  if (job.producer()) AddUnlabelled(*job.producer(), warnings);
  AddUnusableTests(job, warnings);
  if (!job.server()) return warnings;
  AddUntrained(job, warnings);
  AddFewSteps(job, warnings);
  AddEvents(*job.server(), warnings);
  AddVersions(job, warnings);
  return warnings;
}

std::vector<JobWarning> WarningsOf(const ProducerPoint& producer,
                                   const std::optional<Training>& training, uint32_t workers) {
  Warnings warnings;
  AddRejected(producer, producer.rows_read(), warnings);
  if (training) AddShortStream(producer, *training, workers, warnings);
  return warnings;
}

std::string ToText(const JobWarning& warning) {
  if (warning.remedy.empty()) return warning.text;
  return absl::StrCat(warning.text, ": ", warning.remedy);
}

}  // namespace millrace
