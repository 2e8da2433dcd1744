#include "models/softmax_regression.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "models/lanes.h"
#include "models/softmax_pass.h"

namespace millrace {
namespace {

// Rows go through the three passes (logits, probabilities, gradient) in blocks of this many: one
// lane each in the second pass, and one visit of a numeric column's weights for all of them.
constexpr size_t kBlockRows = 16;
// Rows whose logits grow together in the numeric columns: enough to hide an addition's latency.
constexpr size_t kTogether = 4;

using RowLanes = Lanes<kBlockRows>;

// A row's hashed features.
struct Hashed {
  const uint32_t* index;
  const float* value;
  size_t size;
};

// The classes of a few-class model in the lanes of one vector. A feature's weights are read as
// kLanes floats, up to kClasses - 1 of which are the following features'; what is computed from
// those is never used. This stays within the parameters, because kLanes < 2 * kClasses and the
// bias follows the last feature. Writes are kClasses floats, so that no neighbour is touched.
template <size_t kClasses>
class FewClasses {
 public:
  static constexpr size_t kLanes = std::bit_ceil(kClasses);
  using Vector = Lanes<kLanes>;

  explicit FewClasses(size_t classes) { MILLRACE_CHECK(classes == kClasses); }
  static constexpr size_t classes() { return kClasses; }
  static constexpr size_t stride() { return kLanes; }  // of a row in the tables of a block

  // Adds the hashed features' part to a row's logits.
  void AddHashed(const float* weights, const Hashed& row, float* logits) const {
    const auto [index, value, size] = row;
    Vector sum[4] = {Load<kLanes>(logits)};  // four, to hide the latency of an addition
    size_t i = 0;
    for (; i + 4 <= size; i += 4) {
      for (size_t j = 0; j < 4; ++j) {
        sum[j] += value[i + j] * Load<kLanes>(weights + index[i + j] * kClasses);
      }
    }
    for (; i < size; ++i) sum[0] += value[i] * Load<kLanes>(weights + index[i] * kClasses);
    StoreFirst<kLanes, kLanes>(logits, (sum[0] + sum[1]) + (sum[2] + sum[3]));
  }

  // Adds the numeric columns' part to the logits of kTogether rows.
  void AddNumeric(const float* weights, const float* features, size_t columns,
                  float* logits) const {
    Vector sum[kTogether];
    for (size_t r = 0; r < kTogether; ++r) sum[r] = Load<kLanes>(logits + r * kLanes);
    for (size_t column = 0; column < columns; ++column) {
      const Vector weight = Load<kLanes>(weights + column * kClasses);
      for (size_t r = 0; r < kTogether; ++r) sum[r] += features[r * columns + column] * weight;
    }
    for (size_t r = 0; r < kTogether; ++r) StoreFirst<kLanes, kLanes>(logits + r * kLanes, sum[r]);
  }

  void ScatterHashed(const Hashed& row, const float* residual, float* gradient,
                     uint8_t* marks) const {
    const Vector factor = Load<kLanes>(residual);
    const auto [index, value, size] = row;
    for (size_t i = 0; i < size; ++i) {
      marks[index[i]] = 1;
      float* sums = gradient + index[i] * kClasses;
      StoreFirst<kClasses, kLanes>(sums, Load<kLanes>(sums) + value[i] * factor);
    }
  }

  void ScatterNumeric(const float* features, size_t columns, const float* residuals, size_t rows,
                      float* gradient) const {
    if (rows == kBlockRows) {  // The same loop, but of known length.
      ScatterRows(features, columns, residuals, kBlockRows, gradient);
    } else {
      ScatterRows(features, columns, residuals, rows, gradient);
    }
  }

 private:
  [[gnu::always_inline]] static void ScatterRows(const float* features, size_t columns,
                                                 const float* residuals, size_t rows,
                                                 float* gradient) {
    for (size_t column = 0; column < columns; ++column) {
      float* sums = gradient + column * kClasses;
      Vector sum = Load<kLanes>(sums);
      for (size_t r = 0; r < rows; ++r) {
        sum += features[r * columns + column] * Load<kLanes>(residuals + r * kLanes);
      }
      StoreFirst<kClasses, kLanes>(sums, sum);
    }
  }
};

// Any number of classes, by loops over them.
class ManyClasses {
 public:
  explicit ManyClasses(size_t classes) : classes_(classes) {}
  size_t classes() const { return classes_; }
  size_t stride() const { return classes_; }

  void AddHashed(const float* weights, const Hashed& row, float* logits) const {
    for (size_t i = 0; i < row.size; ++i) {
      AddProduct(row.value[i], weights + row.index[i] * classes_, logits);
    }
  }

  void AddNumeric(const float* weights, const float* features, size_t columns,
                  float* logits) const {
    for (size_t column = 0; column < columns; ++column) {
      for (size_t r = 0; r < kTogether; ++r) {
        AddProduct(features[r * columns + column], weights + column * classes_,
                   logits + r * classes_);
      }
    }
  }

  void ScatterHashed(const Hashed& row, const float* residual, float* gradient,
                     uint8_t* marks) const {
    for (size_t i = 0; i < row.size; ++i) {
      marks[row.index[i]] = 1;
      AddProduct(row.value[i], residual, gradient + row.index[i] * classes_);
    }
  }

  void ScatterNumeric(const float* features, size_t columns, const float* residuals, size_t rows,
                      float* gradient) const {
    for (size_t column = 0; column < columns; ++column) {
      for (size_t r = 0; r < rows; ++r) {
        AddProduct(features[r * columns + column], residuals + r * classes_,
                   gradient + column * classes_);
      }
    }
  }

 private:
  void AddProduct(float factor, const float* __restrict from, float* __restrict to) const {
    for (size_t k = 0; k < classes_; ++k) to[k] += factor * from[k];
  }

  size_t classes_;
};

template <class Classes>
class Computation {
 public:
  explicit Computation(const SoftmaxCall& call)
      : call_(call),
        kernel_(call.classes),
        columns_(call.scaler->columns()),
        features_(kBlockRows * columns_),
        table_(kBlockRows * kernel_.stride()),
        by_class_(kBlockRows * kernel_.classes()) {}

  BatchLoss Run() {
    if (call_.gradient != nullptr && !call_.rows.empty()) {
      std::fill_n(call_.gradient->mutable_marks(), columns_, uint8_t{1});
      call_.gradient->mutable_marks()[call_.features] = 1;
    }
    for (size_t begin = 0; begin < call_.rows.size(); begin += kBlockRows) {
      rows_ = call_.rows.subspan(begin, std::min(kBlockRows, call_.rows.size() - begin));
      FindHashed();
      CheckRows();
      ComputeLogits();
      ComputeProbabilities();
      if (call_.scores != nullptr) WriteScores(call_.scores + begin * kernel_.classes());
      if (call_.gradient == nullptr) continue;
      ComputeResiduals();
      AddGradient();
    }
    return loss_;
  }

 private:
  void FindHashed() {
    for (size_t r = 0; r < rows_.size(); ++r) {
      const size_t size = rows_[r]->index.size();
      hashed_[r] = {places_ == nullptr ? rows_[r]->index.data() : places_, rows_[r]->value.data(),
                    size};
      if (places_ != nullptr) places_ += size;
    }
  }

  void CheckRows() const {
    for (const Row* row : rows_) {
      MILLRACE_CHECK(row->label < kernel_.classes());
      MILLRACE_CHECK(row->numeric.size() == columns_);
      MILLRACE_CHECK(row->index.size() == row->value.size());
    }
    // The last index is the largest; that they ascend is the row's promise.
    for (size_t r = 0; r < rows_.size(); ++r) {
      const auto [index, value, size] = hashed_[r];
      MILLRACE_CHECK(size == 0 || index[size - 1] < call_.features);
    }
  }

  float* TableRow(size_t row) { return table_.data() + row * kernel_.stride(); }
  float* ClassRows(size_t k) { return by_class_.data() + k * kBlockRows; }

  void ComputeLogits() {
    const float* bias = call_.parameters + call_.features * kernel_.classes();
    for (size_t r = 0; r < kBlockRows; ++r) {
      std::copy_n(bias, kernel_.classes(), TableRow(r));
    }
    if (columns_ > 0) AddNumericLogits();
    for (size_t r = 0; r < rows_.size(); ++r) {
      kernel_.AddHashed(call_.parameters, hashed_[r], TableRow(r));
    }
  }

  void AddNumericLogits() {
    for (size_t r = 0; r < rows_.size(); ++r) {
      call_.scaler->ScaleRow(rows_[r]->numeric, {features_.data() + r * columns_, columns_});
    }
    // A short block leaves older rows' features after its own; their logits are not used.
    for (size_t r = 0; r < rows_.size(); r += kTogether) {
      kernel_.AddNumeric(call_.parameters, features_.data() + r * columns_, columns_, TableRow(r));
    }
  }

  // From the logits in table_ to the probabilities in by_class_, a row in each lane. The largest
  // logit is subtracted, so that no exponential overflows and one of them is 1.
  void ComputeProbabilities() {
    for (size_t k = 0; k < kernel_.classes(); ++k) {
      for (size_t r = 0; r < kBlockRows; ++r) ClassRows(k)[r] = TableRow(r)[k];
    }
    RowLanes largest = Load<kBlockRows>(ClassRows(0));
    for (size_t k = 1; k < kernel_.classes(); ++k) {
      largest = Max<kBlockRows>(largest, Load<kBlockRows>(ClassRows(k)));
    }
    RowLanes sum = {};
    for (size_t k = 0; k < kernel_.classes(); ++k) {
      const RowLanes e = ExpOfNegative<kBlockRows>(Load<kBlockRows>(ClassRows(k)) - largest);
      StoreFirst<kBlockRows, kBlockRows>(ClassRows(k), e);
      sum += e;
    }
    for (size_t k = 0; k < kernel_.classes(); ++k) {
      StoreFirst<kBlockRows, kBlockRows>(ClassRows(k), Load<kBlockRows>(ClassRows(k)) / sum);
    }
    AddLoss(largest, sum);
  }

  // -log P(label) = largest + log(sum) - logit(label), which stays finite where P rounds to 0.
  void AddLoss(const RowLanes& largest, const RowLanes& sum) {
    for (size_t r = 0; r < rows_.size(); ++r) {
      const uint32_t label = rows_[r]->label;
      const double distance = static_cast<double>(largest[r]) - TableRow(r)[label];
      const double weight = static_cast<double>(Weight(label));
      loss_.loss_sum += weight * (distance + std::log(static_cast<double>(sum[r])));
      loss_.weight_sum += weight;
    }
  }

  float Weight(uint32_t label) const {
    return call_.class_weights->empty() ? 1.0f : (*call_.class_weights)[label];
  }

  void WriteScores(float* scores) {
    for (size_t r = 0; r < rows_.size(); ++r) {
      for (size_t k = 0; k < kernel_.classes(); ++k) {
        scores[r * kernel_.classes() + k] = ClassRows(k)[r];
      }
    }
  }

  // The derivative of a row's loss by its logits, into table_: weight * (P - [class is label]).
  void ComputeResiduals() {
    for (size_t r = 0; r < rows_.size(); ++r) ClassRows(rows_[r]->label)[r] -= 1.0f;
    for (size_t k = 0; k < kernel_.classes(); ++k) {
      for (size_t r = 0; r < kBlockRows; ++r) TableRow(r)[k] = ClassRows(k)[r];
    }
    if (call_.class_weights->empty()) return;
    for (size_t r = 0; r < rows_.size(); ++r) {
      const float weight = Weight(rows_[r]->label);
      for (size_t k = 0; k < kernel_.classes(); ++k) TableRow(r)[k] *= weight;
    }
  }

  void AddGradient() {
    float* sums = call_.gradient->mutable_values();
    float* bias = sums + call_.features * kernel_.classes();
    uint8_t* marks = call_.gradient->mutable_marks();
    for (size_t r = 0; r < rows_.size(); ++r) {
      kernel_.ScatterHashed(hashed_[r], TableRow(r), sums, marks);
      for (size_t k = 0; k < kernel_.classes(); ++k) bias[k] += TableRow(r)[k];
    }
    if (columns_ == 0) return;
    kernel_.ScatterNumeric(features_.data(), columns_, TableRow(0), rows_.size(), sums);
  }

  const SoftmaxCall call_;
  const Classes kernel_;
  const size_t columns_;
  std::vector<float> features_;              // the block's scaled numeric columns, row by row
  std::vector<float> table_;                 // row by row: logits, later residuals
  std::vector<float> by_class_;              // class by class: probabilities, later residuals
  RowsView rows_;                            // the block
  std::array<Hashed, kBlockRows> hashed_{};  // of its rows
  const uint32_t* places_ = call_.places;    // of the rows after it
  BatchLoss loss_;
};

using Compute = BatchLoss (*)(const SoftmaxCall&);

template <class Classes>
BatchLoss RunComputation(const SoftmaxCall& call) {
  return Computation<Classes>(call).Run();
}

constexpr size_t kFewest = 2;
constexpr size_t kMostOfFew = 16;

template <size_t... kOffsets>
constexpr auto MakeTable(std::index_sequence<kOffsets...>) {
  return std::array<Compute, sizeof...(kOffsets)>{
      &RunComputation<FewClasses<kFewest + kOffsets>>...};
}

Compute ComputationFor(size_t classes) {
  static constexpr auto kTable = MakeTable(std::make_index_sequence<kMostOfFew - kFewest + 1>());
  return classes <= kMostOfFew ? kTable[classes - kFewest] : &RunComputation<ManyClasses>;
}

}  // namespace

BatchLoss ComputeSoftmax(const SoftmaxCall& call) {
  MILLRACE_CHECK(call.classes >= kFewest && call.scaler->columns() <= call.features);
  MILLRACE_CHECK(call.gradient == nullptr || call.gradient->block_size() == call.classes);
  return ComputationFor(call.classes)(call);
}

SoftmaxRegression::SoftmaxRegression(size_t features, size_t classes,
                                     std::vector<float> class_weights)
    : features_(features), classes_(classes), class_weights_(std::move(class_weights)) {
  MILLRACE_CHECK(classes >= kFewest);
  MILLRACE_CHECK(class_weights_.empty() || class_weights_.size() == classes);
}

std::unique_ptr<Model> SoftmaxRegression::WithClassWeights(
    const std::vector<float>& weights) const {
  return std::make_unique<SoftmaxRegression>(features_, classes_, weights);
}

BatchLoss SoftmaxRegression::Compute(RowsView rows, const Scaler& scaler,
                                     std::span<const float> parameters, const EmbeddingBatch&,
                                     GradientSum* gradient, std::span<float> scores) const {
  MILLRACE_CHECK(parameters.size() == parameter_count());
  MILLRACE_CHECK(scaler.columns() <= features_);
  MILLRACE_CHECK(scores.empty() || scores.size() == rows.size() * classes_);
  MILLRACE_CHECK(gradient == nullptr || (gradient->values().size() == parameter_count() &&
                                         gradient->block_size() == classes_));
  return ComputationFor(classes_)({.rows = rows,
                                   .scaler = &scaler,
                                   .parameters = parameters.data(),
                                   .features = features_,
                                   .classes = classes_,
                                   .class_weights = &class_weights_,
                                   .gradient = gradient,
                                   .scores = scores.empty() ? nullptr : scores.data()});
}

}  // namespace millrace
