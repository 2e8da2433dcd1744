#include "features/text_hasher.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "features/murmur3.h"

namespace millrace {
namespace {

// |hash| as an unsigned number, which holds 2^31 too: modulo n that is what scikit-learn computes
// for the hash -2^31, whose magnitude an int32 has not.
uint32_t Magnitude(int32_t hash) {
  const uint32_t bits = static_cast<uint32_t>(hash);
  return hash < 0 ? 0u - bits : bits;
}

// a % n by two multiplications; `reciprocal` is 2^64 / n rounded up. Exact for all 32-bit numbers
// (D. Lemire, O. Kaser, N. Kurz, Faster remainder by direct computation, 2019).
uint32_t Modulo(uint32_t a, uint32_t n, uint64_t reciprocal) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint32_t>(static_cast<Wide>(reciprocal * a) * n >> 64);
}

}  // namespace

TextHasher::TextHasher(uint32_t buckets)
    : buckets_(buckets), reciprocal_(buckets == 0 ? 0 : UINT64_MAX / buckets + 1) {
  MILLRACE_CHECK(buckets > 0);
  if (buckets > kMaxDenseBuckets) return;
  sums_.resize(buckets);
  touched_.resize((buckets + 63) / 64);
  touched_words_.resize((touched_.size() + 63) / 64);
}

bool TextHasher::Append(std::string_view text, uint32_t first, std::vector<uint32_t>* index,
                        std::vector<float>* value) {
  if (!tokenizer_.Read(text)) return false;
  features_.clear();
  counts_.clear();
  if (sums_.empty()) {
    CountSparse();
  } else {
    CountDense();
  }

  double squares = 0;
  for (int32_t count : counts_) squares += static_cast<double>(count) * count;
  const double norm = std::sqrt(squares);
  const size_t size = index->size();
  index->resize(size + features_.size());
  value->resize(size + features_.size());
  for (size_t i = 0; i < features_.size(); ++i) {
    (*index)[size + i] = first + features_[i];
    (*value)[size + i] = static_cast<float>(counts_[i] / norm);
  }
  return true;
}

void TextHasher::CountDense() {
  tokenizer_.ForEachToken([&](const char* token, size_t size) {
    const int32_t hash = Murmur3Padded(token, size);
    const uint32_t feature = Modulo(Magnitude(hash), buckets_, reciprocal_);
    sums_[feature] += 1 | hash >> 31;
    touched_[feature / 64] |= uint64_t{1} << feature % 64;
    touched_words_[feature / 4096] |= uint64_t{1} << feature / 64 % 64;
  });
  for (size_t i = 0; i < touched_words_.size(); ++i) {
    for (; touched_words_[i] != 0; touched_words_[i] &= touched_words_[i] - 1) {
      const size_t word = 64 * i + static_cast<size_t>(std::countr_zero(touched_words_[i]));
      for (; touched_[word] != 0; touched_[word] &= touched_[word] - 1) {
        const size_t feature = 64 * word + static_cast<size_t>(std::countr_zero(touched_[word]));
        if (sums_[feature] == 0) continue;
        features_.push_back(static_cast<uint32_t>(feature));
        counts_.push_back(sums_[feature]);
        sums_[feature] = 0;
      }
    }
  }
}

void TextHasher::CountSparse() {
  occurrences_.clear();
  tokenizer_.ForEachToken([&](const char* token, size_t size) {
    const int32_t hash = Murmur3Padded(token, size);
    const uint64_t feature = Modulo(Magnitude(hash), buckets_, reciprocal_);
    occurrences_.push_back(feature << 1 | (hash < 0 ? 1 : 0));
  });
  std::sort(occurrences_.begin(), occurrences_.end());
  for (size_t i = 0; i < occurrences_.size();) {
    const uint64_t feature = occurrences_[i] >> 1;
    int32_t sum = 0;
    for (; i < occurrences_.size() && occurrences_[i] >> 1 == feature; ++i) {
      sum += (occurrences_[i] & 1) != 0 ? -1 : 1;
    }
    if (sum == 0) continue;
    features_.push_back(static_cast<uint32_t>(feature));
    counts_.push_back(sum);
  }
}

}  // namespace millrace
