// Categorical columns and their crosses as hashed features.
//
// A cell of column c with value v is the key "c=v"; the cross of columns A and B with values v and
// w is the key "A*B=v*w", and so on for more columns. The feature is the key's MurmurHash3 as an
// unsigned number, modulo the number of buckets, and has the value 1; the values of keys that
// collide add up. So that different keys are different bytes, backslash, * and = are written with a
// backslash before them in names, and backslash and * in the values of crosses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace millrace {

// The columns of a term of FeatureSpec.categorical: one, or those of a cross ("A*B"). Names may
// stand in quotes (features/name_list.h).
std::vector<std::string> ColumnsOfTerm(std::string_view term);

// Not thread-safe.
class CategoryHasher {
 public:
  // `terms` as in FeatureSpec.categorical. `buckets` is at least 1.
  CategoryHasher(std::span<const std::string> terms, uint32_t buckets);

  // The distinct columns of all terms, in order of first use.
  const std::vector<std::string>& columns() const { return columns_; }

  // Appends the features, ascending and distinct, with `first` added to each, and their values.
  // `cells` are trimmed values in the order of columns().
  void Append(std::span<const std::string_view> cells, uint32_t first, std::vector<uint32_t>* index,
              std::vector<float>* value);

  // The ids of the embedding rows of the terms' keys, in the order of the terms: FNV-1a (64 bits)
  // of the key, finished by SplitMix64, so that of a hundred million keys two share an id with a
  // chance of one in three thousand.
  void SetIds(std::span<const std::string_view> cells, std::vector<EmbeddingId>* ids);

 private:
  struct Term;
  // Into key_.
  void MakeKey(const Term& term, std::span<const std::string_view> cells);

  struct Term {
    std::string prefix;         // of the key, to its =
    std::vector<size_t> cells;  // positions in columns_
  };

  uint32_t buckets_;
  std::vector<std::string> columns_;
  std::vector<Term> terms_;
  std::string key_;                 // scratch
  std::vector<uint32_t> features_;  // scratch
};

}  // namespace millrace
