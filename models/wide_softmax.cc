#include "models/wide_softmax.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "models/softmax_pass.h"

namespace millrace {
namespace {

// The hashed features of a batch, numbered in the order of their ids: a small feature space in
// which the batch is computed.
struct LocalFeatures {
  std::vector<size_t> from;      // the place of each one's row among the embedding rows
  std::vector<uint32_t> places;  // of all rows' features, one after the other; numeric ones first
};

size_t CountOf(RowsView rows) {
  size_t count = 0;
  for (const Row* row : rows) count += row->index.size();
  return count;
}

// Those of `ids` that the rows name: all of them when the ids are the batch's own.
std::vector<size_t> Named(RowsView rows, std::span<const EmbeddingId> ids) {
  std::vector<size_t> named;
  if (ids.size() <= CountOf(rows)) {
    named.resize(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) named[i] = i;
    return named;
  }
  std::vector<uint32_t> wanted;
  for (const Row* row : rows) wanted.insert(wanted.end(), row->index.begin(), row->index.end());
  std::ranges::sort(wanted);
  wanted.erase(std::ranges::unique(wanted).begin(), wanted.end());
  named.reserve(wanted.size());
  for (const uint32_t index : wanted) {
    const auto found = std::ranges::lower_bound(ids, EmbeddingId{index});
    MILLRACE_CHECK(found != ids.end() && *found == index);
    named.push_back(static_cast<size_t>(found - ids.begin()));
  }
  return named;
}

// The number of each feature: a hash table with linear probing, at most half full. A batch looks up
// each of its rows' features, some ten thousand, which by binary search cost more than the model.
class Numbers {
 public:
  explicit Numbers(size_t most)
      : bits_(static_cast<unsigned>(std::bit_width(2 * most))), entries_(size_t{1} << bits_) {}

  // REQUIRES: a new one, and no more than `most` of them.
  void Add(uint32_t index, uint32_t number) {
    size_t at = HomeOf(index);
    while (entries_[at].number != kNone) at = (at + 1) & (entries_.size() - 1);
    entries_[at] = {index, number};
  }
  // REQUIRES: it was added.
  uint32_t Of(uint32_t index) const {
    for (size_t at = HomeOf(index);; at = (at + 1) & (entries_.size() - 1)) {
      MILLRACE_CHECK(entries_[at].number != kNone);
      if (entries_[at].index == index) return entries_[at].number;
    }
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    uint32_t index = 0;
    uint32_t number = kNone;
  };
  // The upper bits of the product depend on all of the index (Knuth's multiplicative hash).
  size_t HomeOf(uint32_t index) const { return (index * 0x9E3779B97F4A7C15u) >> (64 - bits_); }

  unsigned bits_;  // >= 1
  std::vector<Entry> entries_;
};

LocalFeatures Number(RowsView rows, std::span<const EmbeddingId> ids, size_t numeric) {
  LocalFeatures local{.from = Named(rows, ids), .places = {}};
  MILLRACE_CHECK(numeric + local.from.size() < UINT32_MAX);
  Numbers numbers(local.from.size() + 1);
  auto next = static_cast<uint32_t>(numeric);
  for (const size_t at : local.from) numbers.Add(static_cast<uint32_t>(ids[at]), next++);
  local.places.reserve(CountOf(rows));
  for (const Row* row : rows) {
    for (const uint32_t index : row->index) local.places.push_back(numbers.Of(index));
  }
  return local;
}

}  // namespace

WideSoftmax::WideSoftmax(size_t numeric, size_t features, size_t classes,
                         std::vector<float> class_weights)
    : numeric_(numeric),
      features_(features),
      classes_(classes),
      class_weights_(std::move(class_weights)) {
  MILLRACE_CHECK(classes >= 2 && numeric <= features);
  MILLRACE_CHECK(class_weights_.empty() || class_weights_.size() == classes);
}

void WideSoftmax::AppendIds(const Row& row, std::vector<EmbeddingId>& ids) const {
  ids.insert(ids.end(), row.index.begin(), row.index.end());
}

BatchLoss WideSoftmax::Compute(RowsView rows, const Scaler& scaler,
                               std::span<const float> parameters, const EmbeddingBatch& embeddings,
                               GradientSum* gradient, std::span<float> scores) const {
  const size_t k = classes_;
  MILLRACE_CHECK(parameters.size() == parameter_count() && scaler.columns() == numeric_);
  MILLRACE_CHECK(embeddings.values.size() == embeddings.ids.size() * k);
  MILLRACE_CHECK(scores.empty() || scores.size() == rows.size() * k);
  MILLRACE_CHECK(gradient == nullptr || (gradient->values().size() == parameter_count() &&
                                         embeddings.gradient.size() == embeddings.values.size()));
  for (const Row* row : rows) {
    MILLRACE_CHECK(row->index.empty() || row->index.back() < features_);
  }
  const LocalFeatures local = Number(rows, embeddings.ids, numeric_);
  const size_t hashed = local.from.size();
  std::vector<float> weights;
  weights.reserve((numeric_ + hashed + 1) * k);
  weights.assign(parameters.begin(), parameters.begin() + static_cast<ptrdiff_t>(numeric_ * k));
  for (const size_t at : local.from) {
    const float* const row = embeddings.values.data() + at * k;
    weights.insert(weights.end(), row, row + k);
  }
  weights.insert(weights.end(), parameters.end() - static_cast<ptrdiff_t>(k), parameters.end());
  GradientSum sums(gradient == nullptr ? 0 : weights.size(), k);
  const BatchLoss loss = ComputeSoftmax({.rows = rows,
                                         .places = local.places.data(),
                                         .scaler = &scaler,
                                         .parameters = weights.data(),
                                         .features = numeric_ + hashed,
                                         .classes = k,
                                         .class_weights = &class_weights_,
                                         .gradient = gradient == nullptr ? nullptr : &sums,
                                         .scores = scores.empty() ? nullptr : scores.data()});
  if (gradient == nullptr || rows.empty()) return loss;
  const float* sum = sums.values().data();
  const auto add = [&](float* to) {
    for (size_t i = 0; i < k; ++i) to[i] += *sum++;
  };
  for (size_t column = 0; column < numeric_; ++column) add(gradient->Block(column));
  for (const size_t at : local.from) add(embeddings.gradient.data() + at * k);
  add(gradient->Block(numeric_));
  return loss;
}

}  // namespace millrace
