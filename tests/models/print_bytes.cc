// Prints a hash of the bytes that the models' arithmetic gives: of networks forward and back, of
// DeepFM, of networks on all columns, of the online learner and of each optimizer. compare_bytes.py
// compares what builds for different processors print.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "models/deep_fm.h"
#include "models/network_pass.h"
#include "models/online_softmax.h"
#include "models/optimizer.h"
#include "models/wide_network.h"

namespace millrace {
namespace {

// Numbers and their order follow from the seed alone, in whatever library.
class NumberSource {
 public:
  explicit NumberSource(uint64_t seed) : state_(seed) {}
  uint64_t Next() { return Mix64(++state_); }
  float NextFloat() { return EvenlyFrom(Next()); }
  std::vector<float> Floats(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = NextFloat();
    return values;
  }

 private:
  uint64_t state_;
};

uint64_t Hash(std::span<const float> values, uint64_t hash = 0) {
  for (const float value : values) hash = Mix64(hash ^ std::bit_cast<uint32_t>(value));
  return hash;
}

void Print(const std::string& what, uint64_t hash) {
  std::printf("%s: %016llx\n", what.c_str(), static_cast<unsigned long long>(hash));
}

void PrintNetwork(size_t inputs, const std::vector<size_t>& units) {
  NumberSource numbers(inputs);
  const Network network(inputs, units);
  const std::vector<float> parameters = numbers.Floats(network.parameter_count());
  std::vector<float> sums = numbers.Floats(parameters.size());
  NetworkPass pass(network, parameters, sums);
  uint64_t outputs = 0;
  uint64_t input_slopes = 0;
  for (const size_t rows : {NetworkPass::kBlockRows, NetworkPass::kBlockRows, size_t{7}}) {
    for (size_t r = 0; r < rows; ++r) {
      for (float& input : pass.input(r)) input = numbers.NextFloat();
    }
    pass.Forward(rows);
    for (size_t r = 0; r < rows; ++r) outputs = Hash(std::vector<float>{pass.output(r)}, outputs);
    pass.Backward(numbers.Floats(rows));
    for (size_t r = 0; r < rows; ++r) input_slopes = Hash(pass.input_slope(r), input_slopes);
  }
  std::string name = "network " + std::to_string(inputs);
  for (const size_t count : units) name += "-" + std::to_string(count);
  Print(name + " outputs", outputs);
  Print(name + " gradient", Hash(sums));
  Print(name + " input slopes", input_slopes);
}

// What the model computes of these rows, by parameters and embedding rows that are drawn.
BatchLoss PrintComputed(const Model& model, RowsView rows, const Scaler& scaler,
                        std::span<const EmbeddingId> ids, NumberSource& numbers,
                        const std::string& name) {
  const std::vector<float> parameters = numbers.Floats(model.parameter_count());
  const std::vector<float> values = numbers.Floats(ids.size() * model.row_width());
  std::vector<float> row_gradient(values.size());
  std::vector<float> scores(rows.size() * model.score_count());
  GradientSum gradient(parameters.size(), 1);
  const BatchLoss total =
      model.Compute(rows, scaler, parameters, {ids, values, row_gradient}, &gradient, scores);
  Print(name + " scores", Hash(scores));
  Print(name + " gradient", Hash(gradient.values()));
  Print(name + " row gradient", Hash(row_gradient));
  return total;
}

void PrintDeepFm(const ScoreLoss& loss, const std::string& name) {
  constexpr size_t kNumeric = 3, kHashed = 20, kFields = 4, kFactors = 6, kRows = 37;
  NumberSource numbers(1);
  const DeepFm model({kNumeric + kHashed, kNumeric, kFields, kFactors, {24, 9}}, loss, 0.01f);
  std::vector<EmbeddingId> ids;
  for (EmbeddingId id = 0; id < 30; ++id) ids.push_back(id * id);
  std::vector<Row> rows(kRows);
  std::vector<const Row*> view;
  Moments moments(kNumeric);
  for (Row& row : rows) {
    row.label = static_cast<uint32_t>(numbers.Next() % 2);
    row.target = numbers.NextFloat();
    for (size_t i = 0; i < kNumeric; ++i) {
      row.numeric.push_back(1000 * static_cast<double>(numbers.NextFloat()));
    }
    row.index = {static_cast<uint32_t>(kNumeric + numbers.Next() % kHashed)};
    row.value = {numbers.NextFloat()};
    for (size_t i = 0; i < kFields; ++i) row.ids.push_back(ids[numbers.Next() % ids.size()]);
    moments.Add(row);
    view.push_back(&row);
  }
  const BatchLoss total = PrintComputed(model, view, Scaler(moments), ids, numbers, name);
  Print(name + " loss", std::bit_cast<uint64_t>(total.loss_sum));
}

void PrintWideNetwork(size_t classes, bool wide) {
  constexpr size_t kNumeric = 3, kHashed = 20, kRows = 37;
  NumberSource numbers(classes);
  const WideNetwork model({.features = kNumeric + kHashed,
                           .numeric = kNumeric,
                           .classes = classes,
                           .wide = wide,
                           .has_ids = true,
                           .hidden = {24, 9}});
  std::vector<EmbeddingId> ids;
  for (EmbeddingId id = 0; id < 30; ++id) ids.push_back(id);
  std::vector<Row> rows(kRows);
  std::vector<const Row*> view;
  Moments moments(kNumeric);
  moments.class_rows.resize(classes);
  for (Row& row : rows) {
    row.label = static_cast<uint32_t>(numbers.Next() % (classes > 0 ? classes : 1));
    row.target = 1e5f + numbers.NextFloat();
    for (size_t i = 0; i < kNumeric; ++i) {
      row.numeric.push_back(1000 * static_cast<double>(numbers.NextFloat()));
    }
    row.index = {static_cast<uint32_t>(kNumeric + numbers.Next() % kHashed)};
    row.value = {numbers.NextFloat()};
    row.ids = {ids[23 + numbers.Next() % 7]};
    moments.Add(row);
    moments.target.Add(row.target);
    if (classes > 0) ++moments.class_rows[row.label];
    view.push_back(&row);
  }
  Scaler scaler(moments);
  scaler.set_target(moments.target);
  scaler.set_class_rows(moments.class_rows);
  PrintComputed(model, view, scaler, ids, numbers,
                std::to_string(classes) + " classes, a network" + (wide ? ", wide" : ""));
}

void PrintOptimizer(OptimizerOptions::Kind kind, const std::string& name) {
  constexpr size_t kSize = 1003;
  NumberSource numbers(2);
  const auto optimizer = Optimizer::Create({.kind = kind, .l1 = 0.01, .l2 = 0.1});
  std::vector<float> parameters(kSize);
  std::vector<float> slots(kSize * optimizer->slot_count());
  for (uint64_t step = 0; step < 5; ++step) {
    optimizer->Step(step, numbers.Floats(kSize), parameters, slots,
                    {.penalised_end = 500, .linear_end = 800});
  }
  Print(name, Hash(slots, Hash(parameters)));
}

void PrintOnline(size_t classes, const ScoreLoss& loss = {}) {
  constexpr size_t kNumeric = 5, kHashed = 40, kRows = 203;
  NumberSource numbers(classes);
  const OnlineSoftmax model(
      {.numeric = kNumeric, .features = kNumeric + kHashed, .classes = classes}, {}, loss);
  std::vector<Row> rows(kRows);
  std::vector<const Row*> view;
  for (Row& row : rows) {
    if (classes > 0) row.label = static_cast<uint32_t>(numbers.Next() % classes);
    row.target = 500 + 30 * numbers.NextFloat();
    for (size_t i = 0; i < kNumeric; ++i) {
      row.numeric.push_back(1000 * static_cast<double>(numbers.NextFloat()));
    }
    row.index = {static_cast<uint32_t>(kNumeric + numbers.Next() % kHashed)};
    row.value = {numbers.NextFloat()};
    view.push_back(&row);
  }
  RunningScaler scaler(Moments(kNumeric), true);
  std::vector<float> scores(kRows * model.score_count());
  GradientSum change(model.parameter_count(), model.block_size());
  model.Learn({.rows = view, .trained_end = kRows, .concurrent = 13}, scaler,
              std::vector<float>(model.parameter_count()), {}, change, scores);
  const std::string name = "online, " + std::to_string(classes) + " classes, loss " +
                           std::to_string(static_cast<int>(loss.error));
  Print(name + " scores", Hash(scores));
  Print(name + " change", Hash(change.values()));
}

}  // namespace
}  // namespace millrace

int main() {
  using Kind = millrace::OptimizerOptions::Kind;
  millrace::PrintNetwork(1, {1});
  millrace::PrintNetwork(30, {10});
  millrace::PrintNetwork(33, {16, 47, 5});
  millrace::PrintNetwork(111, {64, 32});
  millrace::PrintNetwork(70, {300, 31});
  millrace::PrintDeepFm({}, "DeepFM, two classes");
  millrace::PrintDeepFm({.of_classes = false}, "DeepFM, regression");
  for (const size_t classes : {0, 2, 5}) {
    millrace::PrintWideNetwork(classes, false);
    millrace::PrintWideNetwork(classes, true);
  }
  millrace::PrintOnline(2);
  millrace::PrintOnline(5);
  using millrace::ErrorLoss;
  for (const ErrorLoss error : {ErrorLoss::kSquared, ErrorLoss::kAbsolute, ErrorLoss::kHuber}) {
    millrace::PrintOnline(0, {.of_classes = false, .error = error});
  }
  millrace::PrintOptimizer(Kind::kSgd, "SGD");
  millrace::PrintOptimizer(Kind::kMomentum, "momentum");
  millrace::PrintOptimizer(Kind::kAdaGrad, "AdaGrad");
  millrace::PrintOptimizer(Kind::kAdam, "Adam");
  millrace::PrintOptimizer(Kind::kFtrl, "FTRL");
  return 0;
}
