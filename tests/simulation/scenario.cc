#include "tests/simulation/scenario.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tasks/task_options.h"
#include "tests/simulation/trainers.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kIdsOfColumn = 6;
constexpr size_t kFactors = 2;

// Of a job that acts on drifts the first half of a worker's rows are easy: all of one class, or all
// nearly equal. So the loss rises with the others.
bool IsEasy(const Scenario& scenario, WorkerId worker, RowNumber number) {
  return scenario.training.on_drift() == Training::FORGET && number < scenario.rows[worker] / 2;
}

double Unit(uint64_t hash) { return static_cast<double>(hash >> 11) * 0x1p-53; }

void DrawSchedule(Random& random, Scenario& scenario) {
  Training& training = scenario.training;
  if (random.Chance(0.65)) {
    training.set_schedule(Training::ONE_PASS);
    training.set_batch_rows(static_cast<uint32_t>(random.Between(1, 5)));
    return;
  }
  training.set_schedule(Training::BUFFER);
  training.set_rounds_after_end(static_cast<uint32_t>(random.Below(4)));
  Training::Buffer& buffer = *training.mutable_buffer();
  buffer.set_min_rows(static_cast<uint32_t>(random.Between(1, 4)));
  buffer.set_max_rows(buffer.min_rows() + static_cast<uint32_t>(random.Below(8)));
  buffer.set_coefficient(random.Chance(0.5) ? 0.01 : 0.003);
  buffer.set_skip_rows(random.Chance(0.3));
  buffer.set_minibatch_rows(random.Chance(0.3) ? static_cast<uint32_t>(random.Between(1, 4)) : 0);
}

void DrawRows(Random& random, Scenario& scenario) {
  // The buffer schedule forgets rows only after hundreds of them.
  const bool is_long = random.Chance(scenario.one_pass() ? 0.02 : 0.05);
  const uint64_t most = !is_long ? 24 : scenario.one_pass() ? 2000 : 750;
  const uint64_t base = is_long ? random.Between(530, most) : random.Between(3, most);
  const bool equal = random.Chance(0.4);
  scenario.rows.clear();
  for (WorkerId worker = 0; worker < scenario.workers; ++worker) {
    scenario.rows.push_back(RowNumber(equal                 ? base
                                      : random.Chance(0.15) ? 0
                                                            : random.Below(base + 1)));
  }
  if (is_long && scenario.one_pass()) scenario.training.set_batch_rows(40);
  if (is_long && !scenario.one_pass()) {  // or there would be a round for each row
    scenario.training.mutable_buffer()->set_min_rows(4);
    scenario.training.mutable_buffer()->set_max_rows(12);
  }
  scenario.undecodable = random.Chance(0.4) ? 0.1 : 0;
}

void DrawConsistency(Random& random, Training& training) {
  Training::Consistency& consistency = *training.mutable_consistency();
  switch (random.Below(3)) {
    case 0:
      consistency.set_model(Training::Consistency::SEQUENTIAL);
      return;
    case 1:
      consistency.set_model(Training::Consistency::EVENTUAL);
      return;
    default:
      consistency.set_model(Training::Consistency::BOUNDED);
      consistency.set_max_delay(random.Between(1, 3));
  }
  // (As far as the delay allows it: PipelineOf.)
  if (random.Chance(0.7)) training.set_pipeline(static_cast<uint32_t>(random.Between(1, 4)));
}

void DrawOptimizer(Random& random, Training& training) {
  Training::Optimizer& optimizer = *training.mutable_optimizer();
  optimizer.set_kind(static_cast<Training::Optimizer::Kind>(random.Below(5)));
  optimizer.set_learning_rate(0.1);
  if (optimizer.kind() == Training::Optimizer::FTRL) {
    optimizer.set_ftrl_beta(0.5);
    optimizer.set_l1(random.Chance(0.7) ? 0.1 : 0);
  } else {
    optimizer.set_decay(random.Chance(0.3) ? 0.05 : 0);
  }
  training.set_l2(random.Chance(0.3) ? 0.01 : 0);
}

void DrawUpdate(Random& random, Scenario& scenario) {
  Training& training = scenario.training;
  if (random.Chance(0.3)) {
    training.mutable_update()->set_kind(Training::Update::ONLINE);
    if (!scenario.one_pass()) {
      const bool is_long = std::ranges::max(scenario.rows) > 100;
      training.mutable_buffer()->clear_minibatch_rows();
      training.set_batch_rows(is_long ? 40 : static_cast<uint32_t>(random.Between(1, 5)));
    }
  } else {
    if (random.Chance(0.25)) {
      Training::Update& update = *training.mutable_update();
      update.set_kind(Training::Update::WEIGHT_CHANGE);
      update.set_solver(random.Chance(0.5) ? Training::Update::LBFGS : Training::Update::LOCAL_SGD);
    }
    DrawOptimizer(random, training);
  }
  training.set_scaling(random.Chance(0.7) ? Training::RUNNING : Training::NONE);
  if (random.Chance(0.2)) {
    training.add_class_weight("0=0.5");
    training.add_class_weight("1=1.5");
  } else if (random.Chance(0.3)) {
    training.add_class_weight("balanced");
  }
  if (random.Chance(0.15)) training.set_freeze_after_rows(random.Between(1, 40));
  if (random.Chance(0.15)) training.set_tail_after_rows(random.Between(1, 40));
}

void DrawEmbeddings(Random& random, Scenario& scenario) {
  if (!scenario.one_pass() || scenario.averages() || scenario.online()) return;
  if (!random.Chance(0.35)) return;
  Training& training = scenario.training;
  scenario.ids = random.Between(1, 3);
  scenario.classes = 2;
  training.set_model(Training::FACTORIZATION_MACHINE);
  if (random.Chance(0.4)) {
    training.set_model(Training::DEEP_FM);
    for (uint64_t layers = random.Between(1, 2); layers > 0; --layers) {
      training.add_hidden(static_cast<uint32_t>(random.Between(1, 9)));
    }
  }
  Training::Embedding& embedding = *training.mutable_embedding();
  embedding.set_factors(kFactors);
  embedding.set_initial_limit(0.5);
  embedding.set_seed(random.Next());
  embedding.set_l2(random.Chance(0.3) ? 0.01 : 0);
  // When something is stored or expires depends on the order in which updates come.
  if (scenario.sequential()) return;
  embedding.set_admit_after(static_cast<uint32_t>(random.Between(1, 3)));
  embedding.set_expire_after_s(random.Chance(0.3) ? 0.3 : 0);
}

void DrawWidth(Random& random, Scenario& scenario) {
  Training& training = scenario.training;
  scenario.wide = scenario.one_pass() && scenario.online() && scenario.ids == 0 &&
                  scenario.hashed <= 100 && random.Chance(0.4);
  if (!scenario.wide) return;
  training.set_wide_above(0);
  training.mutable_embedding()->set_seed(random.Next());
  if (scenario.sequential()) return;  // see DrawEmbeddings
  training.mutable_embedding()->set_admit_after(static_cast<uint32_t>(random.Between(1, 3)));
  training.mutable_embedding()->set_expire_after_s(random.Chance(0.3) ? 0.3 : 0);
}

// A network instead of the linear model or the factorization machine that was drawn. By draws of
// its own, so that all else stays as it was drawn.
void DrawNetwork(Scenario& scenario) {
  Random random(Random::Hash(scenario.data_seed, 0, 0, 50000));
  if (scenario.averages() || scenario.online() || scenario.hashed > 100 || !random.Chance(0.15)) {
    return;
  }
  Training& training = scenario.training;
  training.set_model(Training::NETWORK);
  training.clear_hidden();
  for (uint64_t layers = random.Between(1, 2); layers > 0; --layers) {
    training.add_hidden(static_cast<uint32_t>(random.Between(1, 5)));
  }
  Training::Embedding& embedding = *training.mutable_embedding();
  embedding.clear_l2();
  embedding.clear_factors();
  embedding.set_initial_limit(0.5);
  embedding.set_seed(random.Next());
}

// A number is estimated instead of the classes that were drawn; a linear model may have ids then.
// (The steps of squared losses are no shorter than the columns are large, so these are scaled.) By
// draws of its own, as a network's.
void DrawRegression(Scenario& scenario) {
  Random random(Random::Hash(scenario.data_seed, 0, 0, 60000));
  if (!random.Chance(0.2)) return;
  Training& training = scenario.training;
  scenario.regression = true;
  scenario.classes = 0;
  training.clear_class_weight();
  training.set_loss(static_cast<Training::Loss>(random.Below(3)));
  if (training.loss() == Training::HUBER && random.Chance(0.5)) training.set_huber_limit(0.5);
  if (scenario.online()) {
    if (!scenario.wide && scenario.one_pass() && random.Chance(0.3))
      scenario.ids = random.Between(1, 3);
    return;
  }
  training.set_scaling(Training::RUNNING);
  if (scenario.is_network()) return;
  scenario.wide = false;
  training.clear_wide_above();
  if (scenario.ids > 0 && random.Chance(0.3)) {
    training.set_model(Training::SOFTMAX);
    training.clear_hidden();
    training.mutable_embedding()->clear_factors();
    training.mutable_embedding()->clear_l2();
  }
}

void DrawCompression(Random& random, Scenario& scenario) {
  if (!random.Chance(0.35)) return;
  Training::Compression& compression = *scenario.training.mutable_compression();
  compression.set_values(static_cast<Training::Compression::Values>(random.Below(3)));
  // ServerApp refuses FP16 there.
  if (scenario.online() && compression.values() == Training::Compression::FP16) {
    compression.set_values(Training::Compression::BF16);
  }
  if (!scenario.averages() && !scenario.online() && random.Chance(0.4)) {
    compression.set_top_k(random.Chance(0.5) ? 0.3 : 0.05);
  }
}

// By draws of its own, as a network's. (The loop that a sequential job must equal tests no rows
// that it does not learn from.)
void DrawForgetting(Scenario& scenario) {
  Random random(Random::Hash(scenario.data_seed, 0, 0, 70000));
  if (!scenario.online() || !random.Chance(0.5)) return;
  scenario.training.set_on_drift(Training::FORGET);
  scenario.training.clear_freeze_after_rows();
}

JobFeatures FeaturesOf(const Scenario& scenario) {
  JobFeatures features;
  features.set_epoch(kEpoch);
  features.set_workers(scenario.workers);
  features.set_rows_per_turn(scenario.rows_per_turn);
  features.set_most_rows_per_turn(scenario.most_rows_per_turn);
  features.set_dealt_workers(scenario.dealt_workers);
  features.set_feature_count(scenario.features());
  features.mutable_spec()->set_regression(scenario.regression);
  for (size_t k = 0; k < scenario.classes; ++k) {
    features.mutable_spec()->add_classes(std::to_string(k));
  }
  for (size_t column = 0; column < scenario.numeric; ++column) {
    features.mutable_spec()->add_numeric(std::to_string(column));
  }
  for (size_t column = 0; column < scenario.ids; ++column) {
    features.mutable_spec()->add_ids(std::to_string(column));
  }
  features.mutable_parameters()->Add(scenario.parameters.begin(), scenario.parameters.end());
  return features;
}

JobTraining TrainingOf(const Scenario& scenario) {
  JobTraining training;
  training.set_epoch(kEpoch);
  training.set_shards(scenario.shards);
  *training.mutable_training() = scenario.training;
  if (scenario.has_growing_batches()) {
    training.mutable_training()->clear_batch_rows();
    if (!scenario.online()) {
      training.mutable_training()->set_first_batch_rows(Scenario::kFirstRowsOfGradients);
    }
  } else {
    training.mutable_training()->set_batch_rows(scenario.training.batch_rows());
  }
  return training;
}

}  // namespace

size_t SmallMessageBytes(const Scenario& scenario) {
  const bool is_long = std::ranges::max(scenario.rows) > 100;
  // Updates that are held have two values for each key.
  if (scenario.external()) {
    // A worker may name all rows, and want them.
    const size_t rows = RowsOfTables(scenario).size();
    return 4'000 + 8 * KeysOf(scenario).back().end * 4 + rows * (16 + 4 * 8 * kMostSimulatedWidth);
  }
  // Of an online learner there are six values for each weight, and the race.
  if (scenario.online()) return scenario.hashed > 100 ? 240'000 : is_long ? 46'000 : 6'000;
  if (scenario.hashed > 100) return 40'000;  // held updates have a value for each key
  if (is_long) return 40'000;                // and evaluations one for each row
  return scenario.training.hidden_size() > 0 ? 3'500 : 1'500;  // the sums of figures, too
}

Scenario DrawScenario(Random& random) {
  Scenario scenario;
  scenario.data_seed = random.Next();
  scenario.workers = static_cast<uint32_t>(random.Between(1, 5));
  scenario.shards = random.Chance(0.4) ? 1 : static_cast<uint32_t>(random.Between(2, 4));
  scenario.classes = random.Chance(0.5) ? 2 : 3;
  scenario.numeric = random.Below(3);
  scenario.hashed = random.Between(1, 5);
  // Now and then more keys than one block of the shard holds.
  if (random.Chance(0.03)) scenario.hashed = 1500;
  DrawConsistency(random, scenario.training);
  DrawSchedule(random, scenario);
  DrawRows(random, scenario);
  DrawUpdate(random, scenario);
  DrawEmbeddings(random, scenario);
  DrawWidth(random, scenario);
  if (random.Chance(0.35)) {
    scenario.max_frame_bytes = scenario.hashed > 100 ? 4000 : random.Between(40, 120);
  }
  if (random.Chance(0.5)) scenario.most_message_bytes = SmallMessageBytes(scenario);
  scenario.evaluate_batches = random.Chance(0.1);
  DrawCompression(random, scenario);
  if (scenario.shards > 1) scenario.replicas = static_cast<uint32_t>(random.Below(3));
  constexpr uint32_t kTurns[] = {1, 1, 3, 32};
  scenario.rows_per_turn =
      kTurns[Random::Hash(scenario.data_seed, 0, 0, 50001) % std::size(kTurns)];
  if (Random::Hash(scenario.data_seed, 0, 0, 50002) % 2 == 0) {
    scenario.most_rows_per_turn = 3 * scenario.rows_per_turn;
  }
  DrawNetwork(scenario);
  DrawRegression(scenario);
  DrawForgetting(scenario);
  if (scenario.most_message_bytes != kMostMessageBytes) {
    scenario.most_message_bytes = SmallMessageBytes(scenario);
  }
  return scenario;
}

std::string Scenario::ToString() const {
  std::string text =
      "workers " + std::to_string(workers) +
      (resizes() ? " (first " + std::to_string(first_workers) + ")" : "") +
      (dealt_workers > 0 ? " (with rows " + std::to_string(dealt_workers) + ")" : "") +
      ", shards " + std::to_string(shards) + ", replicas " + std::to_string(replicas) +
      ", classes " + (regression ? "none" : std::to_string(classes)) + ", numeric " +
      std::to_string(numeric) + ", hashed " + std::to_string(hashed) + ", ids " +
      std::to_string(ids) + (wide ? ", wide" : "") + (direct ? ", direct" : "") + ", rows";
  for (RowNumber count : rows) text += " " + std::to_string(count);
  text += ", undecodable " + std::to_string(undecodable) + ", max frame bytes " +
          std::to_string(max_frame_bytes) + ", most message bytes " +
          std::to_string(most_message_bytes) + ", data seed " + std::to_string(data_seed) +
          ", evaluate batches " + std::to_string(evaluate_batches) + ", weights from workers " +
          std::to_string(weights_from_workers) + ", training { " + training.ShortDebugString() +
          " }";
  for (const NamedParameter& parameter : parameters) {
    text += ", parameter { " + parameter.ShortDebugString() + " }";
  }
  return text;
}

float TargetOf(const Scenario& scenario, WorkerId worker, RowNumber number) {
  const auto draw = [&](uint64_t what) {
    return Random::Hash(scenario.data_seed, worker, number, what);
  };
  if (scenario.data_seed % 16 == 0) return 7;  // all are equal
  if (IsEasy(scenario, worker, number)) return static_cast<float>(1000 + Unit(draw(30)));
  const double outlier = draw(31) % 10 == 0 ? 2000 : 0;
  return static_cast<float>(1000 + 200 * Unit(draw(30)) + outlier);
}

void DrawResizes(Scenario& scenario, uint32_t first_workers) {
  scenario.workers = std::max(scenario.workers, first_workers + 1);
  scenario.first_workers = first_workers;
  scenario.rows.resize(scenario.workers, scenario.rows.front());
  for (RowNumber& rows : scenario.rows) rows = RowNumber(std::min<uint64_t>(rows, 60) + 12);
  scenario.training.set_schedule(Training::ONE_PASS);
  scenario.training.clear_freeze_after_rows();
  scenario.training.clear_tail_after_rows();
}

void DealToOneWorker(Scenario& scenario) {
  scenario.dealt_workers = 1;
  std::fill(scenario.rows.begin() + 1, scenario.rows.end(), RowNumber(0));
}

Row MakeRow(const Scenario& scenario, WorkerId worker, RowNumber number) {
  const auto draw = [&](uint64_t what) {
    return Random::Hash(scenario.data_seed, worker, number, what);
  };
  Row row;
  if (scenario.regression) {
    row.target = TargetOf(scenario, worker, number);
  } else if (!IsEasy(scenario, worker, number)) {
    row.label = static_cast<uint32_t>(draw(0) % scenario.classes);
  }
  for (size_t column = 0; column < scenario.numeric; ++column) {
    if (column == 0) {
      row.numeric.push_back(static_cast<double>(scenario.StreamRow(worker, number)));
    } else if (draw(100 + column) % 8 == 0) {
      row.numeric.push_back(std::numeric_limits<double>::quiet_NaN());
    } else {
      row.numeric.push_back(100 * Unit(draw(200 + column)) + 10 * row.label +
                            static_cast<double>(row.target) / 10);
    }
  }
  for (size_t feature = 0; feature < scenario.hashed; ++feature) {
    const uint64_t rare = scenario.hashed > 100 ? 300 : 2;
    if (draw(1000 + feature) % rare != 0) continue;
    row.index.push_back(static_cast<uint32_t>(scenario.numeric + feature));
    row.value.push_back(static_cast<float>(Unit(draw(10000 + feature)) - 0.3));
  }
  for (size_t column = 0; column < scenario.ids; ++column) {
    row.ids.push_back(100 * column + draw(20000 + column) % kIdsOfColumn);
  }
  return row;
}

std::vector<EmbeddingId> AllIds(const Scenario& scenario) {
  if (scenario.external()) return RowsOfTables(scenario);
  std::vector<EmbeddingId> ids;
  for (size_t i = 0; scenario.wide && i < scenario.hashed; ++i) ids.push_back(scenario.numeric + i);
  for (size_t column = 0; column < scenario.ids; ++column) {
    for (uint64_t i = 0; i < kIdsOfColumn; ++i) ids.push_back(100 * column + i);
  }
  return ids;
}

RowNumber Scenario::BatchEnd(WorkerId worker, RowNumber begin) const {
  const uint64_t least = online() ? 1 : kFirstRowsOfGradients;
  const uint64_t most = has_growing_batches()
                            ? std::clamp<uint64_t>(uint64_t{begin} / 32, least, 32)
                            : training.batch_rows();
  const bool ends_at_flushes = training.batch_wait_s() > 0;
  for (RowNumber end = begin + 1; end < begin + most; ++end) {
    if ((ends_at_flushes || resizes()) && IsFlushed(worker, end)) return end;
    if (IsLeaseEnd(worker, end)) return end;
  }
  return begin + most;
}

// Alone, or with those beside it.
bool IsUndecodable(const Scenario& scenario, WorkerId worker, RowNumber number) {
  constexpr uint64_t kBeside = 4;
  const double part =
      scenario.data_seed % 4 == 0 ? 2 * scenario.undecodable : scenario.undecodable / 2;
  return Unit(Random::Hash(scenario.data_seed, worker, number, 77)) < part ||
         Unit(Random::Hash(scenario.data_seed, worker, number / kBeside, 78)) < part;
}

bool IsDamaged(const Scenario& scenario, WorkerId worker, const InputKey& key) {
  if (key.first % 3 == 2) return false;
  for (RowNumber number = key.first; number < key.end(); ++number) {
    if (!IsUndecodable(scenario, worker, number)) return false;
  }
  return key.has_rows();
}

std::string InputValue(const Scenario& scenario, WorkerId worker, const InputKey& key) {
  if (!key.has_rows()) return EncodeEnd(key.first);
  // No frame, or another format version.
  if (IsDamaged(scenario, worker, key)) {
    return key.first % 3 == 0 ? "?" : std::string("\x09\x00row", 5);
  }
  RowBatchEncoder batch;
  for (RowNumber number = key.first; number < key.end(); ++number) {
    Row row = MakeRow(scenario, worker, number);
    // A class that does not exist, or no number.
    if (IsUndecodable(scenario, worker, number)) {
      row.label = static_cast<uint32_t>(scenario.classes);
      row.target = std::numeric_limits<float>::quiet_NaN();
    }
    batch.Add(row);
  }
  return EncodeRows(batch);
}

std::unique_ptr<Model> MakeModel(const Scenario& scenario) {
  return millrace::MakeModel(FeaturesOf(scenario), scenario.training);
}

ServerOptions MakeServerOptions(const Scenario& scenario, ShardId shard) {
  ServerOptions options =
      millrace::MakeServerOptions(FeaturesOf(scenario), TrainingOf(scenario), shard);
  options.max_frame_bytes = scenario.max_frame_bytes;
  options.most_message_bytes = scenario.most_message_bytes;
  options.weights_from_workers = scenario.weights_from_workers;
  if (scenario.resizes()) options.first_workers = scenario.first_workers;
  options.fewest_window_rows = kFewestWindowRows;
  options.drift_pace = {kDriftBlockRows, kFirstDriftBlocks};
  // Of some rows only.
  if (options.embeddings) options.embeddings->cache_bytes = scenario.data_seed % 1500;
  return options;
}

WorkerOptions MakeWorkerOptions(const Scenario& scenario, WorkerId worker) {
  WorkerOptions options =
      millrace::MakeWorkerOptions(FeaturesOf(scenario), TrainingOf(scenario), worker);
  options.evaluate_batches = scenario.evaluate_batches;
  if (scenario.resizes()) options.first_workers = scenario.first_workers;
  options.max_frame_bytes = scenario.max_frame_bytes;
  return options;
}

}  // namespace millrace::simulation
