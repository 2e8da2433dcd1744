// What two models have predicted of the same rows, until the rows' labels come, and how good both
// were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "models/evaluation.h"
#include "models/row.h"

namespace millrace {

// Not thread-safe.
class ComparedRows {
 public:
  // Rows that wait take `most_bytes` at most, about: beyond it the oldest are forgotten.
  explicit ComparedRows(size_t most_bytes) : most_bytes_(most_bytes) {}

  // A row by its id, with as many scores of each model. A row of the same id that waits is
  // replaced.
  void Keep(std::string_view id, std::span<const float> model, std::span<const float> challenger);
  // Counts the row of this id by its label, or its target (`classes` 0: a regression), and lets go
  // of it. False: no such row waits, and it is counted as unknown.
  bool AddLabel(std::string_view id, const Row& label, size_t classes);
  // Begins anew.
  void Clear();

  const EvaluationSums& model() const { return model_; }
  const EvaluationSums& challenger() const { return challenger_; }  // of the same rows
  size_t waiting() const { return waiting_.size(); }
  uint64_t forgotten() const { return forgotten_; }
  uint64_t unknown() const { return unknown_; }

 private:
  struct Waiting {
    std::string id;
    std::vector<float> scores;  // the model's, then as many of the challenger
  };

  static size_t BytesOf(const Waiting& waiting);
  void Forget(std::list<Waiting>::iterator which);

  const size_t most_bytes_;
  std::list<Waiting> waiting_;                                                  // the oldest first
  size_t bytes_ = 0;                                                            // of them
  absl::flat_hash_map<absl::string_view, std::list<Waiting>::iterator> by_id_;  // of the same
  uint64_t forgotten_ = 0;
  uint64_t unknown_ = 0;
  EvaluationSums model_;
  EvaluationSums challenger_;
};

}  // namespace millrace
