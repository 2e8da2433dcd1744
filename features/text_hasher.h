// The features of a text, equal to those of
//   sklearn.feature_extraction.text.HashingVectorizer(n_features=buckets)
// with its defaults: each word (features/tokenizer.h) is hashed by signed MurmurHash3; the feature
// is |hash| modulo `buckets`, and the word adds +1 to it if its hash is not negative, else -1; the
// values are then divided by their l2 norm, in double. Features in which the words cancel out are
// left out (scikit-learn stores explicit zeros there, which are the same vector).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "features/tokenizer.h"

namespace millrace {

// Not thread-safe.
class TextHasher {
 public:
  // `buckets` is at least 1. Up to kMaxDenseBuckets it takes about 4 bytes a bucket.
  explicit TextHasher(uint32_t buckets);

  // Appends the features, ascending and distinct, with `first` added to each, and their values.
  // False, with nothing appended, if `text` is not valid UTF-8.
  bool Append(std::string_view text, uint32_t first, std::vector<uint32_t>* index,
              std::vector<float>* value);

  static constexpr uint32_t kMaxDenseBuckets = uint32_t{1} << 20;

 private:
  size_t HashWords();
  size_t CountDense(size_t words);
  size_t CountSparse(size_t words);

  uint32_t buckets_;
  uint64_t reciprocal_;  // 2^64 / buckets_, rounded up
  Tokenizer tokenizer_;

  // Of the current text: the hash of each word; the distinct features in ascending order, and
  // their sums of signs. They only grow, and their ends may be left over from longer texts.
  std::vector<int32_t> hashes_;
  std::vector<uint32_t> features_;
  std::vector<int32_t> counts_;

  // Dense: a sum for each bucket, a bit for each bucket that was touched, and a bit for each word
  // of those that has one. All zero between texts. Walking the bits sorts for nothing.
  std::vector<int32_t> sums_;
  std::vector<uint64_t> touched_;
  std::vector<uint64_t> touched_words_;

  // Sparse, for more buckets: feature and sign of each word.
  std::vector<uint64_t> occurrences_;
};

}  // namespace millrace
