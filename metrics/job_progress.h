// A job's progress, folded from the points of its metrics topic, without clock or I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/types.h"
#include "messages/records.pb.h"
#include "metrics/group_progress.h"
#include "metrics/learning_curve.h"
#include "metrics/recent_speed.h"

namespace millrace {

class JobProgress {
 public:
  using ProducerPoint = MetricPoint::ProducerProgress;
  using ServerPoint = MetricPoint::ServerProgress;

  void Fold(const MetricPoint& point);

  const std::optional<ProducerPoint>& producer() const { return producer_; }
  // All shards in one: the rounds of the slowest, the sum of what each shard counts for itself, and
  // from shard 0 what only shard 0 counts (rows, figures).
  const std::optional<ServerPoint>& server() const { return server_; }
  // The point of the shard that is furthest back: what it waits for, the job waits for.
  const ServerPoint& slowest_shard() const;  // REQUIRES server()
  // The shard's last point is that of a clean stop.
  bool shard_stopped(ShardId shard) const;
  // When the last shard stopped, if all have, cleanly, before the job's end; empty: they have not.
  std::optional<int64_t> stopped_ms() const;
  // The recovery of each shard by the process that hosts it, by shard; none for shards that started
  // empty.
  std::map<ShardId, ServerPoint::Recovery> recoveries() const;
  // See GroupExchanges::groups.
  std::vector<GroupProgress> groups() const { return groups_.groups(); }
  const std::optional<Figures>& holdout() const { return holdout_; }
  uint64_t test_rows_rejected() const { return test_rows_rejected_; }  // of the held-out file
  int64_t last_timestamp_ms() const { return last_timestamp_ms_; }     // 0: no point yet
  int64_t last_server_ms() const { return last_server_ms_; }           // 0: no server's point yet
  int64_t producer_ms() const { return producer_ms_; }                 // of its last point; 0: none
  // Of each shard's last point.
  const std::map<ShardId, int64_t>& shards_heard_ms() const { return shards_heard_ms_; }
  // When a worker's clock moved, by the first point that says so; of any worker; 0: not yet.
  int64_t worker_moved_ms(WorkerId worker) const;
  int64_t moved_ms() const { return moved_ms_; }
  // How long an update of the slowest worker takes from one to the next, as its last two did: a
  // single one that was late because of an outage does not count. 0: not known.
  int64_t update_takes_ms() const;

  // Training begins with the server's last point before it has any update (they come four times a
  // second; its first point if it has updates then), and ends with the server's point that says so,
  // which follows the last evaluation, the last checkpoint and the saving of the weights; while
  // there is none, with the newest point. Empty before the first update.
  std::optional<double> duration_seconds() const;
  // What came in this duration, divided by it: without what there was at its beginning (of a job
  // that began with a snapshot: what the snapshot has learnt). Empty below a second, of which
  // points that come four times a second tell nothing.
  std::optional<double> rounds_per_second() const;
  // Rows tested or trained on; of a job on sliding buffers, where rows are replaced untouched, rows
  // trained on.
  std::optional<double> rows_per_second() const;

  // Over the last seconds, without the time of an outage (metrics/recent_speed.h), by the points'
  // own timestamps; empty while it is not known, or when the job has ended.
  std::optional<double> recent_rounds_per_second() const;
  std::optional<double> recent_rows_per_second() const;

  // How much of the stream has been sent, and how much has been trained on, 0 to 1; empty when its
  // length is unknown. On the sliding buffer rows may be replaced before they were looked at, so
  // there both are what has been sent.
  struct StreamShare {
    double sent = 0;
    double learnt = 0;
    uint64_t rows = 0;  // of the whole stream, all epochs; an estimate until it has been sent
  };
  std::optional<StreamShare> stream_share() const;
  // By the present speed; empty while it is not known, also while nothing moves.
  std::optional<double> seconds_left() const;

  uint64_t rows_tested() const;  // rows of the stream that have passed the model
  // Of the input, in its first epoch. The servers' last points may be newer than the producer's, so
  // not less than what was rejected or trained on. REQUIRES producer()
  uint64_t rows_read() const;
  // Of a job on sliding buffers that has ended: rows that no update used before newer ones replaced
  // them. Empty: not such a job, or not known.
  std::optional<uint64_t> rows_replaced() const;
  uint64_t staleness_max() const { return staleness_max_; }

  // When the job began: when its training settings were published. Empty: not known.
  std::optional<int64_t> started_ms() const;
  // When the last shard said first that it has ended; empty: not all of them have.
  std::optional<int64_t> ended_ms() const { return end_ms_; }
  // By program ("CsvProducer", "TopicSource", "ServerApp", "WorkerApp"): the versions of all its
  // processes that have been heard from, at most kMostVersions.
  static constexpr size_t kMostVersions = 16;
  const std::map<std::string, std::set<std::string>>& versions() const { return versions_; }

  // Every shard has ended.
  bool ended() const;
  // ... and all its points have arrived: the last evaluation, the producer's end.
  bool complete() const;

  const LearningCurve& curve(CurvePoint::Kind kind) const {
    return curves_[static_cast<size_t>(kind)];
  }
  // Curve points since the last call, in order, for a log. Evaluations are delayed until the number
  // of rows seen at their clock is known.
  std::vector<CurvePoint> TakeCurvePoints();
  // To be called when no further point will arrive: evaluations are no longer delayed.
  void Finish();

 private:
  struct Sample {
    int64_t timestamp_ms = 0;
    uint64_t rounds = 0;
    uint64_t rows = 0;
    Clock newest_clock = 0;
    uint64_t rows_trained = 0;
    double train_loss = 0;
  };
  struct WaitingEvaluation {
    int64_t timestamp_ms;
    MetricPoint::Evaluation evaluation;
  };

  void NoteVersion(const std::string& program, const MetricPoint::Setup& setup);
  void FoldStreamSpeed(int64_t timestamp_ms);
  void FoldServer(int64_t timestamp_ms, const ServerPoint& point);
  void FoldEvaluation(int64_t timestamp_ms, const MetricPoint::Evaluation& evaluation);
  static bool IsFirstOfAnotherGroup(const ServerPoint& point);
  void Combine();
  void NoteClocks(int64_t timestamp_ms, const ServerPoint& point);
  Sample MakeSample(int64_t timestamp_ms) const;
  bool TrainedRowsCount() const;
  // `value` of now less that of the begin, by the second.
  std::optional<double> WholeRate(uint64_t now, uint64_t begin) const;
  void ResolveEvaluations(bool all);
  void AddToCurve(CurvePoint point);
  void AddProgressivePoints();

  std::optional<ProducerPoint> producer_;
  std::map<ShardId, ServerPoint> shards_;
  uint32_t layout_ = 0;  // of these shards, the newest
  std::optional<ServerPoint> server_;
  GroupExchanges groups_;
  std::optional<Figures> holdout_;
  uint64_t test_rows_rejected_ = 0;
  bool evaluations_come_ = false;
  bool last_evaluation_ = false;

  int64_t last_timestamp_ms_ = 0;
  int64_t last_server_ms_ = 0;
  int64_t producer_ms_ = 0;
  std::map<ShardId, int64_t> shards_heard_ms_;
  struct Moved {
    Clock clock = 0;
    int64_t since_ms = 0;
    std::optional<int64_t> took_ms;         // from the clock before to this one
    std::optional<int64_t> took_before_ms;  // the same of the clock before
  };
  std::map<WorkerId, Moved> worker_moved_;
  int64_t moved_ms_ = 0;

  std::optional<Sample> idle_;   // of the server's last point without updates
  std::optional<Sample> begin_;  // where training began
  std::optional<int64_t> end_ms_;
  uint64_t staleness_max_ = 0;
  std::map<std::string, std::set<std::string>> versions_;

  RecentSpeed speed_;           // of the servers
  RecentSpeed stream_speed_;    // of the producer
  std::deque<Sample> samples_;  // the last half minute
  std::deque<WaitingEvaluation> waiting_;
  LearningCurve curves_[kCurveKinds];
  uint64_t window_end_ = 0;  // of the newest window that is in its curve
  std::vector<CurvePoint> new_points_;
  int64_t next_progressive_ms_ = 0;
};

// "sequential", "eventual", "bounded:K"; "one-pass", "buffer"; "adagrad": as the flags have them.
std::string ConsistencyName(const Training& training);
std::string ScheduleName(const Training& training);
std::string LearnerName(const Training& training);

}  // namespace millrace
