// How long it takes from a row's arrival to the first prediction by weights that contain it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/types.h"

namespace millrace {

// Times in milliseconds, by the clocks of several programs. Not thread-safe.
class Freshness {
 public:
  // What has taken longer counts as so long.
  static constexpr int64_t kMostMs = 60'000;

  // From here on rows are those of another worker, or of later; those before are forgotten.
  void Begin();

  // `count` rows from this number on came in one record of this time.
  void AddRows(RowNumber first, uint64_t count, int64_t came_ms);
  // The rows below this number are in the weights of an answer that was sent at this time, and in
  // all later ones.
  void NoteCounted(RowNumber end, int64_t sent_ms);
  // The weights that were sent at this time predict since `used_ms`. In the order of their times.
  void NoteModel(int64_t sent_ms, int64_t used_ms);
  // The rows that have waited for longer than kMostMs count as such, and are forgotten.
  void GiveUp(int64_t now_ms);

  // Rows that are in no weights that predict.
  bool has_waiting() const { return !waiting_.empty(); }
  // Rows that have been measured.
  uint64_t rows() const { return rows_; }
  // The least bound of the histogram below which so great a part of the rows are; 0: there are
  // none. REQUIRES: 0 < part <= 1.
  int64_t Quantile(double part) const;
  // {"rows":3,"p50_ms":12,"p99_ms":15,"histogram":[[12,2],[15,1]]}: pairs of a bound, which is
  // included, and the rows above the bound before it; those without rows are left out. Without rows
  // null.
  std::string Json() const;

 private:
  struct Rows {
    RowNumber first = 0;
    RowNumber end = 0;
    int64_t came_ms = 0;
  };
  struct Counted {
    RowNumber end = 0;
    int64_t sent_ms = 0;
  };
  struct Used {
    int64_t sent_ms = 0;
    int64_t used_ms = 0;
  };

  // The waiting rows below this number predict since `used_ms`.
  void Measure(RowNumber end, int64_t used_ms);
  void Add(int64_t took_ms, uint64_t rows);

  std::deque<Rows> waiting_;     // by number
  std::deque<Counted> counted_;  // by time: they are in no weights that predict
  std::deque<Used> used_;        // the newest, by time
  std::vector<uint64_t> bins_;
  uint64_t rows_ = 0;
};

}  // namespace millrace
