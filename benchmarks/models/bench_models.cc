// The models' inner loops against the same arithmetic in bare Eigen, measured in turns.
//
// Softmax step, per batch: clear the gradient; logits = X W + b; probabilities = exp(logits -
// their maximum), normalised; sum of the log losses; gradient += X^T (P - Y).
//   ours   SoftmaxRegression::Compute, from rows as the buffers hold them: sparse rows one by one
//          behind pointers, numeric columns as unscaled doubles, which it scales.
//   floor  Eigen, from a matrix that lies ready: dense float rows already scaled, or one compressed
//          sparse matrix for the batch. The number of classes is a constant of Eigen's types.
// DeepFM step, per batch: forward, log losses, and the gradient of all parameters and rows.
//   ours   DeepFm::Compute, from rows and embedding rows as a worker holds them: it looks up the
//          rows of each id, scales the numeric columns, and does the linear part and the pairs,
//          too.
//   floor  the network alone in Eigen, from a matrix of its inputs that lies ready.
// Optimizer step: our AdaGrad against the array expression of the same formula.
#include <Eigen/Dense>
#include <Eigen/SparseCore>
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "benchmarks/turns.h"
#include "models/deep_fm.h"
#include "models/initial_weights.h"
#include "models/optimizer.h"
#include "models/softmax_regression.h"

namespace millrace {
namespace {

constexpr size_t kBatchRows = 64;
constexpr size_t kBatches = 16;  // a full buffer's rows, so that branches meet more than one batch

struct Shape {
  const char* name;
  size_t numeric;
  size_t hashed;         // size of the hashed space
  size_t hashed_in_row;  // of which a row has so many
};

std::vector<Row> MakeRows(const Shape& shape, size_t classes, std::mt19937& random) {
  std::uniform_int_distribution<uint32_t> label(0, static_cast<uint32_t>(classes - 1));
  std::uniform_int_distribution<int> pixel(0, 16);
  std::uniform_int_distribution<uint32_t> feature(
      static_cast<uint32_t>(shape.numeric),
      static_cast<uint32_t>(shape.numeric + shape.hashed - (shape.hashed > 0 ? 1 : 0)));
  std::normal_distribution<float> value(0.0f, 0.2f);
  std::vector<Row> rows(kBatchRows * kBatches);
  for (Row& row : rows) {
    row.label = label(random);
    for (size_t i = 0; i < shape.numeric; ++i) row.numeric.push_back(pixel(random));
    while (row.index.size() < shape.hashed_in_row) {
      row.index.push_back(feature(random));
      std::sort(row.index.begin(), row.index.end());
      row.index.erase(std::unique(row.index.begin(), row.index.end()), row.index.end());
    }
    for (size_t i = 0; i < row.index.size(); ++i) row.value.push_back(value(random));
  }
  return rows;
}

// The floor's step over one batch of prepared data, which may be a dense or a sparse matrix.
template <class Data, int kClasses>
class EigenSoftmax {
 public:
  using Table = Eigen::Matrix<float, Eigen::Dynamic, kClasses, Eigen::RowMajor>;
  using Bias = Eigen::Matrix<float, 1, kClasses>;

  explicit EigenSoftmax(size_t features)
      : gradient_(features, kClasses), logits_(kBatchRows, kClasses) {}

  double Step(const Data& data, const std::vector<uint32_t>& labels, const Table& weights,
              const Bias& bias) {
    gradient_.setZero();
    bias_gradient_.setZero();
    logits_.noalias() = data * weights;
    logits_.rowwise() += bias;
    logits_.colwise() -= logits_.rowwise().maxCoeff().eval();
    double loss = 0;
    for (size_t r = 0; r < labels.size(); ++r) loss -= static_cast<double>(logits_(r, labels[r]));
    logits_ = logits_.array().exp();
    const Eigen::Matrix<float, Eigen::Dynamic, 1> sums = logits_.rowwise().sum();
    for (size_t r = 0; r < labels.size(); ++r) loss += std::log(static_cast<double>(sums(r)));
    logits_.array().colwise() /= sums.array();
    for (size_t r = 0; r < labels.size(); ++r) logits_(r, labels[r]) -= 1.0f;
    gradient_.noalias() += data.transpose() * logits_;
    bias_gradient_ += logits_.colwise().sum();
    return loss;
  }

  const Table& gradient() const { return gradient_; }

 private:
  Table gradient_;
  Bias bias_gradient_;
  Table logits_;
};

using DenseData = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using SparseData = Eigen::SparseMatrix<float, Eigen::RowMajor>;

DenseData ToData(RowsView rows, const Scaler& scaler, size_t features, DenseData*) {
  DenseData data(rows.size(), features);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < features; ++i) data(r, i) = scaler.Scale(i, rows[r]->numeric[i]);
  }
  return data;
}

SparseData ToData(RowsView rows, const Scaler& scaler, size_t features, SparseData*) {
  SparseData data(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(features));
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < scaler.columns(); ++i) {
      data.insert(r, i) = scaler.Scale(i, rows[r]->numeric[i]);
    }
    for (size_t i = 0; i < rows[r]->index.size(); ++i) {
      data.insert(r, rows[r]->index[i]) = rows[r]->value[i];
    }
  }
  data.makeCompressed();
  return data;
}

template <class Data, int kClasses>
Comparison CompareSoftmax(const Shape& shape) {
  using Floor = EigenSoftmax<Data, kClasses>;
  struct State {
    std::vector<Row> rows;
    std::vector<std::vector<const Row*>> batches;
    std::vector<std::vector<uint32_t>> labels;
    std::vector<Data> data;
    std::vector<float> parameters;
    std::unique_ptr<Scaler> scaler;
    std::unique_ptr<SoftmaxRegression> model;
    std::unique_ptr<GradientSum> gradient;
    std::unique_ptr<Floor> floor;
    typename Floor::Table weights;
    typename Floor::Bias bias;
  };
  auto state = std::make_shared<State>();
  std::mt19937 random(1);
  const size_t features = shape.numeric + shape.hashed;
  state->rows = MakeRows(shape, kClasses, random);
  Moments moments(shape.numeric);
  for (const Row& row : state->rows) moments.Add(row);
  state->scaler = std::make_unique<Scaler>(moments);
  state->model = std::make_unique<SoftmaxRegression>(features, kClasses);
  state->gradient = std::make_unique<GradientSum>(state->model->parameter_count(), kClasses);
  state->floor = std::make_unique<Floor>(features);
  std::normal_distribution<float> weight(0.0f, 0.3f);
  for (size_t i = 0; i < state->model->parameter_count(); ++i) {
    state->parameters.push_back(weight(random));
  }
  state->weights = Eigen::Map<typename Floor::Table>(state->parameters.data(), features, kClasses);
  state->bias =
      Eigen::Map<typename Floor::Bias>(state->parameters.data() + state->model->penalised_end());
  for (size_t b = 0; b < kBatches; ++b) {
    std::vector<const Row*> batch;
    std::vector<uint32_t> labels;
    for (size_t r = 0; r < kBatchRows; ++r) {
      batch.push_back(&state->rows[b * kBatchRows + r]);
      labels.push_back(batch.back()->label);
    }
    state->data.push_back(ToData(batch, *state->scaler, features, static_cast<Data*>(nullptr)));
    state->batches.push_back(std::move(batch));
    state->labels.push_back(std::move(labels));
  }

  const auto ours = [state] {
    double loss = 0;
    for (const auto& batch : state->batches) {
      state->gradient->Clear();
      loss +=
          state->model->Compute(batch, *state->scaler, state->parameters, state->gradient.get(), {})
              .loss_sum;
    }
    return loss + static_cast<double>(state->gradient->values()[0]);
  };
  const auto floor = [state] {
    double loss = 0;
    for (size_t b = 0; b < kBatches; ++b) {
      loss += state->floor->Step(state->data[b], state->labels[b], state->weights, state->bias);
    }
    return loss + static_cast<double>(state->floor->gradient()(0, 0));
  };
  return {.name = std::string("softmax step, ") + shape.name,
          .unit = "rows/s",
          .items = static_cast<double>(kBatches * kBatchRows),
          .ours = ours,
          .floor = floor};
}

// Two hidden layers, forward and back.
class EigenNetwork {
 public:
  using Table = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Line = Eigen::Matrix<float, 1, Eigen::Dynamic>;

  // `parameters` as Network has them.
  EigenNetwork(const float* parameters, Eigen::Index inputs, Eigen::Index first,
               Eigen::Index second) {
    const auto table = [&](Eigen::Index rows, Eigen::Index columns) {
      Table values = Eigen::Map<const Table>(parameters, rows, columns);
      parameters += rows * columns;
      return values;
    };
    weights1_ = table(inputs, first);
    biases1_ = table(1, first);
    weights2_ = table(first, second);
    biases2_ = table(1, second);
    output_ = table(second, 1);
  }

  double Step(const Table& inputs, const std::vector<uint32_t>& labels) {
    units1_.noalias() = inputs * weights1_;
    units1_.rowwise() += biases1_;
    units1_ = units1_.cwiseMax(0.0f);
    units2_.noalias() = units1_ * weights2_;
    units2_.rowwise() += biases2_;
    units2_ = units2_.cwiseMax(0.0f);
    slopes_.noalias() = units2_ * output_;
    double loss = 0;
    for (Eigen::Index r = 0; r < slopes_.rows(); ++r) {
      const auto y = static_cast<double>(slopes_(r, 0));
      const bool one = labels[static_cast<size_t>(r)] == 1;
      loss += std::log1p(std::exp(one ? -y : y));
      slopes_(r, 0) = static_cast<float>(1 / (1 + std::exp(-y)) - (one ? 1 : 0));
    }
    output_gradient_.noalias() = units2_.transpose() * slopes_;
    slopes2_.noalias() = slopes_ * output_.transpose();
    slopes2_ = (units2_.array() > 0.0f).select(slopes2_, 0.0f);
    gradient2_.noalias() = units1_.transpose() * slopes2_;
    bias_gradient2_ = slopes2_.colwise().sum();
    slopes1_.noalias() = slopes2_ * weights2_.transpose();
    slopes1_ = (units1_.array() > 0.0f).select(slopes1_, 0.0f);
    gradient1_.noalias() = inputs.transpose() * slopes1_;
    bias_gradient1_ = slopes1_.colwise().sum();
    input_slopes_.noalias() = slopes1_ * weights1_.transpose();
    return loss + static_cast<double>(gradient1_(0, 0) + input_slopes_(0, 0));
  }

 private:
  Table weights1_, weights2_, output_;
  Line biases1_, biases2_, bias_gradient1_, bias_gradient2_;
  Table units1_, units2_, slopes_, slopes1_, slopes2_, input_slopes_;
  Table gradient1_, gradient2_, output_gradient_;
};

Comparison CompareDeepFm() {
  constexpr size_t kFields = 10, kFactors = 8, kNumeric = 11, kIdsOfField = 200;
  constexpr size_t kInputs = kFields * kFactors + kNumeric;
  struct State {
    std::vector<Row> rows;
    std::vector<std::vector<const Row*>> batches;
    std::vector<std::vector<uint32_t>> labels;
    std::vector<EigenNetwork::Table> inputs;
    std::vector<std::vector<EmbeddingId>> ids;  // by batch: those that it names
    std::vector<std::vector<float>> values;     // of their rows
    std::vector<float> row_gradient;
    std::vector<float> parameters;
    DeepFm model{{kNumeric, kNumeric, kFields, kFactors, {64, 32}}, ScoreLoss{}};
    std::unique_ptr<GradientSum> gradient;
    std::unique_ptr<EigenNetwork> floor;
    Scaler scaler = Scaler::Identity(kNumeric);
  };
  auto state = std::make_shared<State>();
  std::mt19937 random(3);
  std::normal_distribution<float> value(0.0f, 0.3f);
  state->rows = MakeRows({"", kNumeric, 0, 0}, 2, random);
  Moments moments(kNumeric);
  for (Row& row : state->rows) {
    moments.Add(row);
    for (size_t field = 0; field < kFields; ++field) {
      row.ids.push_back(field * kIdsOfField + random() % kIdsOfField);
    }
  }
  state->scaler = Scaler(moments);
  state->parameters =
      InitialWeights(state->model.random_init_ranges(), 1, {0, state->model.parameter_count()});
  for (size_t i = state->parameters.size() - 32; i < state->parameters.size(); ++i) {
    state->parameters[i] = value(random);
  }
  state->gradient = std::make_unique<GradientSum>(state->parameters.size(), 1);
  state->floor = std::make_unique<EigenNetwork>(
      state->parameters.data() + state->model.linear_end(), kInputs, 64, 32);
  for (size_t b = 0; b < kBatches; ++b) {
    std::vector<const Row*> batch;
    std::vector<uint32_t> labels;
    EigenNetwork::Table inputs(kBatchRows, kInputs);
    std::set<EmbeddingId> named;
    for (size_t r = 0; r < kBatchRows; ++r) {
      const Row& row = state->rows[b * kBatchRows + r];
      named.insert(row.ids.begin(), row.ids.end());
    }
    const std::vector<EmbeddingId> ids(named.begin(), named.end());
    std::vector<float> values(ids.size() * (1 + kFactors));
    for (float& each : values) each = value(random);
    state->row_gradient.resize(std::max(state->row_gradient.size(), values.size()));
    for (size_t r = 0; r < kBatchRows; ++r) {
      const Row& row = state->rows[b * kBatchRows + r];
      batch.push_back(&row);
      labels.push_back(row.label);
      for (size_t i = 0; i < kFields * kFactors; ++i) {
        const auto at = std::ranges::lower_bound(ids, row.ids[i / kFactors]) - ids.begin();
        inputs(r, i) = values[static_cast<size_t>(at) * (1 + kFactors) + 1 + i % kFactors];
      }
      for (size_t i = 0; i < kNumeric; ++i) {
        inputs(r, kFields * kFactors + i) = state->scaler.Scale(i, row.numeric[i]);
      }
    }
    state->batches.push_back(std::move(batch));
    state->labels.push_back(std::move(labels));
    state->inputs.push_back(std::move(inputs));
    state->ids.push_back(ids);
    state->values.push_back(std::move(values));
  }
  const auto ours = [state] {
    double loss = 0;
    for (size_t b = 0; b < kBatches; ++b) {
      state->gradient->Clear();
      const std::span<float> row_gradient =
          std::span(state->row_gradient).first(state->values[b].size());
      std::ranges::fill(row_gradient, 0.0f);
      loss +=
          state->model
              .Compute(state->batches[b], state->scaler, state->parameters,
                       {state->ids[b], state->values[b], row_gradient}, state->gradient.get(), {})
              .loss_sum;
    }
    return loss + static_cast<double>(state->gradient->values()[0]);
  };
  const auto floor = [state] {
    double loss = 0;
    for (size_t b = 0; b < kBatches; ++b) {
      loss += state->floor->Step(state->inputs[b], state->labels[b]);
    }
    return loss;
  };
  return {.name = "DeepFM step: 10 ids x 8 factors + 11 numeric, 64, 32",
          .unit = "rows/s",
          .items = static_cast<double>(kBatches * kBatchRows),
          .ours = ours,
          .floor = floor};
}

Comparison CompareAdaGrad(size_t size) {
  struct State {
    std::vector<float> gradient;
    std::vector<float> parameters;
    std::vector<float> slots;
    Eigen::ArrayXf floor_parameters;
    Eigen::ArrayXf floor_squares;
    std::unique_ptr<Optimizer> optimizer = Optimizer::Create({});
  };
  auto state = std::make_shared<State>();
  std::mt19937 random(2);
  std::normal_distribution<float> value;
  for (size_t i = 0; i < size; ++i) state->gradient.push_back(value(random));
  state->parameters.resize(size);
  state->slots.resize(size);
  state->floor_parameters.setZero(static_cast<Eigen::Index>(size));
  state->floor_squares.setZero(static_cast<Eigen::Index>(size));
  const auto ours = [state] {
    state->optimizer->Step(0, state->gradient, state->parameters, state->slots);
    return static_cast<double>(state->parameters[0]);
  };
  const auto floor = [state, size] {
    const OptimizerOptions options;
    const Eigen::Map<const Eigen::ArrayXf> gradient(state->gradient.data(),
                                                    static_cast<Eigen::Index>(size));
    state->floor_squares += gradient.square();
    state->floor_parameters -= static_cast<float>(options.learning_rate) * gradient /
                               (state->floor_squares.sqrt() + static_cast<float>(options.epsilon));
    return static_cast<double>(state->floor_parameters[0]);
  };
  return {.name = "AdaGrad step, " + std::to_string(size) + " parameters",
          .unit = "parameters/s",
          .items = static_cast<double>(size),
          .ours = ours,
          .floor = floor};
}

std::vector<Comparison> AllComparisons() {
  return {
      CompareSoftmax<SparseData, 5>({"text: 80 of 1024 features x 5 classes", 0, 1024, 80}),
      CompareSoftmax<SparseData, 2>({"table: 5 numeric + 15 of 1024 x 2 classes", 5, 1024, 15}),
      CompareSoftmax<DenseData, 10>({"digits: 64 numeric x 10 classes", 64, 0, 0}),
      CompareDeepFm(),
      CompareAdaGrad(6150),
  };
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::RunComparisons("The models' inner loops against bare Eigen.", argc, argv,
                                  millrace::AllComparisons());
}
