#include "features/text_hasher.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

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
  const size_t words = HashWords();
  if (features_.size() < words) features_.resize(words);
  if (counts_.size() < words) counts_.resize(words);
  const size_t distinct = sums_.empty() ? CountSparse(words) : CountDense(words);

  double squares = 0;
  for (size_t i = 0; i < distinct; ++i) squares += static_cast<double>(counts_[i]) * counts_[i];
  const double norm = std::sqrt(squares);
  const size_t size = index->size();
  index->resize(size + distinct);
  value->resize(size + distinct);
  // Through pointers to local objects, since the vectors might be one another's for all the
  // compiler knows.
  const uint32_t* const features = features_.data();
  const int32_t* const counts = counts_.data();
  uint32_t* const __restrict index_out = index->data() + size;
  float* const __restrict value_out = value->data() + size;
  for (size_t i = 0; i < distinct; ++i) index_out[i] = first + features[i];
  for (size_t i = 0; i < distinct; ++i) value_out[i] = static_cast<float>(counts[i] / norm);
  return true;
}

size_t TextHasher::HashWords() {
  if (hashes_.size() < tokenizer_.MaxTokens()) hashes_.resize(tokenizer_.MaxTokens());
  int32_t* end = hashes_.data();
  tokenizer_.ForEachToken(
      [&end](const char* token, size_t size) { *end++ = Murmur3Padded(token, size); });
  return static_cast<size_t>(end - hashes_.data());
}

size_t TextHasher::CountDense(size_t words) {
  const uint32_t buckets = buckets_;
  const uint64_t reciprocal = reciprocal_;
  int32_t* const sums = sums_.data();
  uint64_t* const touched = touched_.data();
  uint64_t* const touched_words = touched_words_.data();
  for (size_t i = 0; i < words; ++i) {
    const int32_t hash = hashes_[i];
    const uint32_t feature = Modulo(Magnitude(hash), buckets, reciprocal);
    sums[feature] += 1 | hash >> 31;
    touched[feature / 64] |= uint64_t{1} << feature % 64;
    touched_words[feature / 4096] |= uint64_t{1} << feature / 64 % 64;
  }
  size_t distinct = 0;
  uint32_t* const features = features_.data();
  int32_t* const counts = counts_.data();
  for (size_t i = 0; i < touched_words_.size(); ++i) {
    for (uint64_t word_bits = std::exchange(touched_words[i], 0); word_bits != 0;
         word_bits &= word_bits - 1) {
      const size_t word = 64 * i + static_cast<size_t>(std::countr_zero(word_bits));
      for (uint64_t bits = std::exchange(touched[word], 0); bits != 0; bits &= bits - 1) {
        const size_t feature = 64 * word + static_cast<size_t>(std::countr_zero(bits));
        const int32_t sum = std::exchange(sums[feature], 0);
        features[distinct] = static_cast<uint32_t>(feature);
        counts[distinct] = sum;
        distinct += sum != 0;
      }
    }
  }
  return distinct;
}

size_t TextHasher::CountSparse(size_t words) {
  occurrences_.resize(words);
  for (size_t i = 0; i < words; ++i) {
    const uint64_t feature = Modulo(Magnitude(hashes_[i]), buckets_, reciprocal_);
    occurrences_[i] = feature << 1 | (hashes_[i] < 0 ? 1 : 0);
  }
  std::sort(occurrences_.begin(), occurrences_.end());
  size_t distinct = 0;
  for (size_t i = 0; i < words;) {
    const uint64_t feature = occurrences_[i] >> 1;
    int32_t sum = 0;
    for (; i < words && occurrences_[i] >> 1 == feature; ++i) {
      sum += (occurrences_[i] & 1) != 0 ? -1 : 1;
    }
    if (sum == 0) continue;
    features_[distinct] = static_cast<uint32_t>(feature);
    counts_[distinct++] = sum;
  }
  return distinct;
}

}  // namespace millrace
