// Which rows an accepted update must hold: each once, in order, none invented.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/memory_log.h"
#include "tests/simulation/referee.h"
#include "tests/simulation/scenario.h"

namespace millrace::simulation {

// Sees `input-data` and the accepted updates. Updates name no rows, but the moments of the first
// numeric column, which holds the row's own number, tell them apart, and those of the targets.
class RowAudit {
 public:
  explicit RowAudit(const Scenario& scenario);

  void OnInput(WorkerId worker, const LogRecord& record);
  // Empty, or what is wrong.
  std::string Check(const Referee::Accepted& accepted) const;
  // At the end: what each worker's accepted clocks must have been, and the dead letters.
  // `leased`: so many rows of each were given to it; empty: all.
  std::string CheckEnd(const Referee& referee, const std::vector<RowNumber>& leased) const;

 private:
  struct Partition {
    RowNumber next = 0;
    std::vector<int64_t> times;          // of each row
    std::vector<size_t> buffer_sizes;    // after each row, as the buffer rules have it
    std::vector<Offset> dead;            // offsets of what cannot be used,
    std::vector<RowNumber> dead_rows;    // and its rows, or those that were next
    std::vector<Offset> behind_the_end;  // what cannot be used there is read by chance only
    bool ended = false;
  };
  // The rows of an update.
  struct Used {
    RowNumber begin = 0;
    RowNumber end = 0;
    RowNumber trained_begin = 0;
    RowNumber new_begin = 0;
  };
  // Of an update: the rows that are tested for the first time, and those of them that are learnt
  // from.
  struct NewRows {
    std::vector<RowNumber> tested;
    std::vector<RowNumber> learnt;
    size_t tail = 0;  // the last of `tested`
  };
  std::string CheckRows(const Referee::Accepted& accepted, const Used& used) const;
  // What it says of the numbers of its rows, their classes, or the targets of a regression.
  std::string CheckNumbers(const Referee::Accepted& accepted, const NewRows& rows) const;
  std::string CheckClasses(const Referee::Accepted& accepted, const NewRows& rows) const;
  std::string CheckTargets(const Referee::Accepted& accepted, const NewRows& rows) const;
  std::string CheckOnlineOnBuffer(const Referee::Accepted& accepted) const;
  size_t BufferSize(const Partition& partition, size_t before) const;
  // When the rows below `next` had come.
  static size_t SizeAt(const Partition& partition, RowNumber next) {
    return next == 0 ? 0 : partition.buffer_sizes[next - 1];
  }

  const Scenario& scenario_;
  std::vector<Partition> partitions_;
};

}  // namespace millrace::simulation
