// How a figure developed: points over the rows of the stream. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "messages/records.pb.h"

namespace millrace {

// Figures of the model at one moment of the stream.
struct CurvePoint {
  enum class Kind {
    kProgressive,  // each row tested before it was trained on, from the stream's start to here
    kTail,         // the same, of the rows from the job's tail_after_rows on
    kHoldout,      // the held-out file, on the weights of this moment
    kWindow,       // as progressive, of the last full window only
  };
  Kind kind = Kind::kProgressive;
  int64_t timestamp_ms = 0;
  ShardId shard = 0;
  Clock clock = 0;            // the newest of any worker
  uint64_t rows_tested = 0;   // rows of the stream up to here; of a window, up to its end
  uint64_t rows_trained = 0;  // the same without those that were only tested (freeze_after_rows)
  double train_loss = 0;
  Figures figures;
};

inline constexpr size_t kCurveKinds = 4;

std::string_view NameOf(CurvePoint::Kind kind);

// A curve of bounded size, however long the job: when it is full, every second point is dropped,
// and from then on only every second one is added. The newest point is always kept.
class LearningCurve {
 public:
  static constexpr size_t kMaxPoints = 512;

  void Add(const CurvePoint& point);
  bool empty() const { return points_.empty(); }
  const std::vector<CurvePoint>& points() const { return points_; }

  // `figure` at `count` places, evenly over the rows tested; fewer when there are fewer points.
  std::vector<double> Sampled(size_t count,
                              const std::function<double(const Figures&)>& figure) const;

 private:
  std::vector<CurvePoint> points_;
  size_t stride_ = 1;   // one of so many points is kept
  size_t skipped_ = 0;  // since the last that was kept; the newest point is among them
};

}  // namespace millrace
