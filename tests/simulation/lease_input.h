// The partitions of a simulated `input-data` whose rows are leased, and what a referee knows of
// them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "messages/leases.pb.h"
#include "processors/input_data_processor.h"
#include "tests/simulation/random.h"

namespace millrace::simulation {

inline constexpr uint64_t kLeaseBatchRows = 5;

// What a row has learnt from: its place.
inline double ValueOfLeasedRow(uint32_t partition, uint64_t row) {
  return static_cast<double>(partition * 1'000'000 + row);
}

// As a producer writes it that is killed now and then and repeats rows, in other records.
class LeaseInput {
 public:
  LeaseInput(uint32_t partition, uint64_t rows) : partition_(partition), rows_(rows) {}

  void Produce(Random& random);
  bool has_ended() const { return ended_; }
  uint64_t rows() const { return rows_; }  // at its end
  size_t end() const { return keys_.size(); }
  size_t begin() const { return begin_; }  // records before it are deleted
  void DeleteBefore(size_t offset) { begin_ = std::max(begin_, offset); }
  // REQUIRES begin() <= offset < end(). Valid until the next Produce.
  InputDataRecord At(size_t offset) const;

  // Behind the batch that begins with this row of the lease, by the records of the log.
  uint64_t EndOfBatchAt(const InputRange& range, uint64_t row) const;

 private:
  struct Content {
    uint64_t begin = 0;
    uint64_t end = 0;  // begin: a flush
  };
  void Add(uint64_t begin, uint64_t end, std::string value);

  const uint32_t partition_;
  const uint64_t rows_;
  size_t begin_ = 0;
  uint64_t next_ = 0;  // to be produced
  bool ended_ = false;
  std::vector<Content> contents_;
  std::vector<std::string> keys_;
  std::vector<std::string> values_;
};

}  // namespace millrace::simulation
