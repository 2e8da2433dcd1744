#include "models/wide_network.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "models/network_pass.h"
#include "models/place_of.h"
#include "models/target_scale.h"

namespace millrace {
namespace {

void AddProductTo(float factor, const float* __restrict from, size_t size, float* __restrict to) {
  for (size_t i = 0; i < size; ++i) to[i] += factor * from[i];
}

}  // namespace

WideNetwork::WideNetwork(const Shape& shape, const ScoreLoss& loss,
                         std::vector<float> class_weights)
    : shape_(shape),
      loss_(loss),
      class_weights_(std::move(class_weights)),
      network_(shape.numeric, shape.hidden, std::max<size_t>(shape.classes, 1)) {
  MILLRACE_CHECK(shape.numeric <= shape.features && shape.classes != 1);
  loss_.of_classes = shape.classes > 0;
}

std::unique_ptr<Model> WideNetwork::WithClassWeights(const std::vector<float>& weights) const {
  if (!loss_.of_classes) return nullptr;
  MILLRACE_CHECK(weights.size() == score_count());
  auto model = std::make_unique<WideNetwork>(*this);
  model->class_weights_ = weights;
  model->loss_.from_frequencies = false;
  return model;
}

void WideNetwork::AppendIds(const Row& row, std::vector<EmbeddingId>& ids) const {
  if (shape_.wide) ids.insert(ids.end(), row.index.begin(), row.index.end());
  ids.insert(ids.end(), row.ids.begin(), row.ids.end());
}

std::vector<RandomInitRange> WideNetwork::random_init_ranges() const {
  std::vector<RandomInitRange> ranges = {{BagKey(), NetworkKey(), shape_.initial_limit}};
  const std::vector<RandomInitRange> layers = network_.RandomInitRanges(NetworkKey());
  ranges.insert(ranges.end(), layers.begin(), layers.end());
  return ranges;
}

// One call of Compute, whose arguments outlive it.
class WideNetwork::Computation {
 public:
  Computation(const WideNetwork& model, const Scaler& scaler, std::span<const float> parameters,
              const EmbeddingBatch& embeddings, GradientSum* gradient)
      : model_(model),
        scaler_(scaler),
        parameters_(parameters.data()),
        embeddings_(embeddings),
        sums_(gradient == nullptr ? nullptr : gradient->mutable_values()),
        marks_(gradient == nullptr ? nullptr : gradient->mutable_marks()),
        targets_(scaler, model.loss_, model.shape_.classes, model.class_weights_),
        pass_(model.network_, parameters.subspan(model.NetworkKey()), NetworkSums()),
        outputs_(NetworkPass::kBlockRows * model.outputs()) {}

  // `scores`: empty, or of the block's rows.
  BatchLoss Run(RowsView block, std::span<float> scores) {
    const size_t width = model_.outputs();
    for (size_t r = 0; r < block.size(); ++r) FindTerms(*block[r], r);
    pass_.Forward(block.size());
    BatchLoss total;
    for (size_t r = 0; r < block.size(); ++r) {
      const std::span<float> outputs = OutputsOf(r);
      for (size_t k = 0; k < width; ++k) outputs[k] += pass_.outputs(r)[k];
      z_.assign(outputs.begin(), outputs.end());
      const BatchLoss loss = targets_.LossOf(
          *block[r], z_, scores.empty() ? scores : scores.subspan(r * width, width), outputs);
      total.loss_sum += loss.loss_sum;
      total.weight_sum += loss.weight_sum;
    }
    if (sums_ == nullptr) return total;
    pass_.Backward(std::span(outputs_).first(block.size() * width));
    for (size_t r = 0; r < block.size(); ++r) AddGradient(r);
    return total;
  }

 private:
  // A hashed feature or an id of a row. Where its weights stand, and their gradient.
  struct Term {
    const float* linear = nullptr;
    const float* first = nullptr;
    float* linear_sums = nullptr;
    float* first_sums = nullptr;
    float x = 1;
  };

  std::span<float> NetworkSums() {
    if (sums_ == nullptr) return {};
    const size_t size = model_.network_.parameter_count();
    std::fill_n(marks_ + model_.NetworkKey(), size, uint8_t{1});
    return {sums_ + model_.NetworkKey(), size};
  }
  std::span<float> OutputsOf(size_t row) {
    return std::span(outputs_).subspan(row * model_.outputs(), model_.outputs());
  }

  Term DenseTerm(size_t feature, float x) const {
    const size_t linear = feature * model_.outputs();
    const size_t first = model_.BagKey() + (feature - model_.shape_.numeric) * model_.units();
    Term term{.linear = parameters_ + linear, .first = parameters_ + first, .x = x};
    if (sums_ == nullptr) return term;
    term.linear_sums = sums_ + linear;
    term.first_sums = sums_ + first;
    std::fill_n(marks_ + linear, model_.outputs(), uint8_t{1});
    std::fill_n(marks_ + first, model_.units(), uint8_t{1});
    return term;
  }
  Term RowTerm(EmbeddingId id, float x) const {
    const size_t place = PlaceOf(embeddings_.ids, id) * model_.row_width();
    const float* const values = embeddings_.values.data() + place;
    Term term{.linear = values, .first = values + model_.outputs(), .x = x};
    if (sums_ == nullptr) return term;
    term.linear_sums = embeddings_.gradient.data() + place;
    term.first_sums = term.linear_sums + model_.outputs();
    return term;
  }

  // Writes the row's inputs of the network, and its outputs as far as they are linear.
  void FindTerms(const Row& row, size_t r) {
    const Shape& shape = model_.shape_;
    const size_t width = model_.outputs();
    MILLRACE_CHECK(row.numeric.size() == shape.numeric);
    MILLRACE_CHECK(row.index.empty() || row.index.back() < shape.features);
    MILLRACE_CHECK(row.index.size() == row.value.size());
    const std::span<float> input = pass_.input(r);
    scaler_.ScaleRow(row.numeric, input);
    float* const outputs = OutputsOf(r).data();
    std::copy_n(parameters_ + model_.penalised_end(), width, outputs);
    for (size_t i = 0; i < input.size(); ++i) {
      AddProductTo(input[i], parameters_ + i * width, width, outputs);
    }
    std::vector<Term>& terms = terms_[r];
    terms.clear();
    for (size_t i = 0; i < row.index.size(); ++i) {
      terms.push_back(shape.wide ? RowTerm(row.index[i], row.value[i])
                                 : DenseTerm(row.index[i], row.value[i]));
    }
    for (const EmbeddingId id : row.ids) terms.push_back(RowTerm(id, 1));
    const std::span<float> added = pass_.added(r);
    std::ranges::fill(added, 0.0f);
    for (const Term& term : terms) {
      AddProductTo(term.x, term.linear, width, outputs);
      AddProductTo(term.x, term.first, added.size(), added.data());
    }
  }

  // The network's own was added by the pass.
  void AddGradient(size_t r) {
    const size_t width = model_.outputs();
    const float* const slopes = OutputsOf(r).data();
    const std::span<const float> input = pass_.input(r);
    for (size_t i = 0; i < input.size(); ++i) {
      AddProductTo(input[i], slopes, width, sums_ + i * width);
    }
    AddProductTo(1, slopes, width, sums_ + model_.penalised_end());
    const std::span<const float> first = pass_.added_slope(r);
    for (const Term& term : terms_[r]) {
      AddProductTo(term.x, slopes, width, term.linear_sums);
      AddProductTo(term.x, first.data(), first.size(), term.first_sums);
    }
  }

  const WideNetwork& model_;
  const Scaler& scaler_;
  const float* const parameters_;
  const EmbeddingBatch& embeddings_;
  float* const sums_;  // null: no gradient
  uint8_t* const marks_;
  TargetScale targets_;
  NetworkPass pass_;
  std::array<std::vector<Term>, NetworkPass::kBlockRows> terms_;
  std::vector<float> outputs_;  // of the block's rows; later slopes
  std::vector<float> z_;        // scratch: the outputs of a row
};

BatchLoss WideNetwork::Compute(RowsView rows, const Scaler& scaler,
                               std::span<const float> parameters, const EmbeddingBatch& embeddings,
                               GradientSum* gradient, std::span<float> scores) const {
  constexpr size_t kBlock = NetworkPass::kBlockRows;
  MILLRACE_CHECK(parameters.size() == parameter_count() && scaler.columns() == shape_.numeric);
  MILLRACE_CHECK(embeddings.values.size() == embeddings.ids.size() * row_width());
  MILLRACE_CHECK(gradient == nullptr || (gradient->values().size() == parameter_count() &&
                                         embeddings.gradient.size() == embeddings.values.size()));
  MILLRACE_CHECK(scores.empty() || scores.size() == rows.size() * score_count());
  BatchLoss total;
  if (rows.empty()) return total;
  Computation computation(*this, scaler, parameters, embeddings, gradient);
  if (gradient != nullptr) {
    uint8_t* const marks = gradient->mutable_marks();
    std::fill_n(marks, shape_.numeric * outputs(), uint8_t{1});
    std::fill_n(marks + penalised_end(), outputs(), uint8_t{1});
  }
  for (size_t begin = 0; begin < rows.size(); begin += kBlock) {
    const RowsView block = rows.subspan(begin, std::min(kBlock, rows.size() - begin));
    const BatchLoss loss = computation.Run(
        block,
        scores.empty() ? scores : scores.subspan(begin * outputs(), block.size() * outputs()));
    total.loss_sum += loss.loss_sum;
    total.weight_sum += loss.weight_sum;
  }
  return total;
}

std::vector<float> WideNetwork::NarrowParameters(std::span<const float> parameters,
                                                 std::span<const float> rows) const {
  MILLRACE_CHECK(parameters.size() == parameter_count());
  MILLRACE_CHECK(rows.size() == (shape_.wide ? hashed() * row_width() : 0));
  const auto at = [&](size_t key) { return parameters.begin() + static_cast<ptrdiff_t>(key); };
  std::vector<float> result(parameters.begin(), at(penalised_end()));
  std::vector<float> bag;
  for (; !rows.empty(); rows = rows.subspan(row_width())) {
    result.insert(result.end(), rows.begin(), rows.begin() + static_cast<ptrdiff_t>(outputs()));
    bag.insert(bag.end(), rows.begin() + static_cast<ptrdiff_t>(outputs()),
               rows.begin() + static_cast<ptrdiff_t>(row_width()));
  }
  result.insert(result.end(), at(penalised_end()), at(linear_end()));
  result.insert(result.end(), bag.begin(), bag.end());
  result.insert(result.end(), at(BagKey()), parameters.end());
  return result;
}

}  // namespace millrace
