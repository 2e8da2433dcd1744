// Sends the largest part of each gradient first and the rest later: sparse updates with error
// feedback.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "models/gradient_sum.h"

namespace millrace {

// Stich, Cordonnier, Jaggi, "Sparsified SGD with memory" (NeurIPS 2018), algorithm 1, with the
// memory outside of the learning rate, as in "Deep gradient compression" (Lin et al., ICLR 2018):
// what is not sent is kept, and added to the gradients that follow until it is among the largest.
//
// Of an update that touches n dense parameters, ceil(fraction * n) values are sent: those of the
// largest absolute value of all that is kept, whether this update touched them or not; of equal
// ones, those of the smaller keys. So an update is never larger than a fraction of what it would
// be. Of embedding rows the same by their Euclidean norms, whole rows, since a row's values are
// stored, counted and expire together. Kept rows take kKeptBytes at most: beyond that, more are
// sent.
//
// Nothing depends on how parameters are spread over shards. Not thread-safe.
class TopK {
 public:
  static constexpr size_t kKeptBytes = size_t{4} << 20;

  // REQUIRES 0 < fraction <= 1. `row_width`: floats of an embedding row; 0: there are none.
  TopK(double fraction, size_t parameter_count, size_t row_width, size_t kept_bytes = kKeptBytes);

  struct Chosen {
    std::vector<uint64_t> keys;    // ascending
    std::vector<float> values;     // one per key
    std::vector<EmbeddingId> ids;  // ascending
    std::vector<float> rows;       // row by row, as many floats each as a row is wide
  };

  // Adds the gradient (`rows` are those of `ids`, row by row) to what is kept, and takes the
  // largest part out. REQUIRES ascending, distinct ids. When any of it is not finite or beyond
  // 1e18, everything is taken: the server refuses such an update as a whole, and kept it would
  // spoil every later one. Valid until the next call.
  const Chosen& Choose(GradientSum& gradient, std::span<const EmbeddingId> ids,
                       std::span<const float> rows);

  size_t kept_rows() const { return ids_.size(); }

 private:
  // What is larger is chosen, and the first `equal` of just this size.
  struct Threshold {
    float size = 0;
    size_t equal = 0;
  };
  Threshold ThresholdOf(size_t count);  // that chooses `count` of sizes_, which it reorders
  static bool Takes(Threshold& threshold, float size);
  size_t Part(size_t count) const;

  void AddRows(std::span<const EmbeddingId> ids, std::span<const float> rows);
  void ChooseValues(size_t count);
  void ChooseRows(size_t count);
  bool IsSane() const;

  double fraction_;
  size_t width_;
  size_t most_rows_;
  std::vector<float> values_;     // kept, by key
  std::vector<EmbeddingId> ids_;  // kept, ascending
  std::vector<float> rows_;
  Chosen chosen_;
  // Scratch.
  std::vector<float> sizes_;
  std::vector<EmbeddingId> merged_ids_;
  std::vector<float> merged_rows_;
};

}  // namespace millrace
