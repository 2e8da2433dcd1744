#include "metrics/job_progress.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "metrics/source_counts.h"

namespace millrace {
namespace {

constexpr int64_t kSamplesKeptMs = 30'000;
// Points of progressive figures in the log: at most one in so long.
constexpr int64_t kProgressiveEveryMs = 500;
constexpr double kMostRowsShown = 0x1p62;
constexpr double kLeastSecondsOfARate = 1;
// The server's points come four times a second; a longer gap before the first update is no idling.
constexpr int64_t kIdlePointMs = 1000;

// By which the news of a shard are known from what was said of it before: a shard that has lost its
// state, counters and all, and was given its weights by a worker, goes on from the workers' clocks.
// (Only for a worker that knows none it assumes the least of the others'.)
Clock SumOfClocks(const MetricPoint::ServerProgress& point) {
  Clock sum = 0;
  for (const WorkerProgress& worker : point.workers()) sum += worker.clock();
  return sum;
}

Clock NewestClock(const MetricPoint::ServerProgress& point) {
  Clock newest = 0;
  for (const WorkerProgress& worker : point.workers())
    newest = std::max(newest, Clock(worker.clock()));
  return newest;
}

// A counter of a process that was replaced may begin anew.
uint64_t Since(uint64_t begin, uint64_t now) { return now - std::min(now, begin); }

double Share(uint64_t part, uint64_t whole) {
  if (whole == 0) return 0;
  return std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace

void JobProgress::Fold(const MetricPoint& point) {
  if (point.has_worker()) return NoteVersion("WorkerApp", point.worker().setup());
  last_timestamp_ms_ = std::max(last_timestamp_ms_, point.timestamp_ms());
  switch (point.kind_case()) {
    case MetricPoint::kProducer:
      NoteVersion(NameOfProducer(point.producer()), point.producer().setup());
      producer_ = point.producer();
      FoldStreamSpeed(point.timestamp_ms());
      producer_ms_ = std::max(producer_ms_, point.timestamp_ms());
      break;
    case MetricPoint::kServer:
      NoteVersion("ServerApp", point.server().setup());
      FoldServer(point.timestamp_ms(), point.server());
      break;
    case MetricPoint::kEvaluation:
      FoldEvaluation(point.timestamp_ms(), point.evaluation());
      break;
    case MetricPoint::kWorker:
    case MetricPoint::KIND_NOT_SET:
      break;
  }
}

void JobProgress::NoteVersion(const std::string& program, const MetricPoint::Setup& setup) {
  if (setup.version().empty()) return;
  std::set<std::string>& known = versions_[program];
  if (known.size() < kMostVersions) known.insert(setup.version());
}

std::optional<int64_t> JobProgress::started_ms() const {
  if (!server_ || server_->setup().job_started_ms() == 0) return std::nullopt;
  return server_->setup().job_started_ms();
}

void JobProgress::FoldServer(int64_t timestamp_ms, const ServerPoint& point) {
  // (Of shards that are no more a late point may come.)
  if (point.layout() < layout_) return;
  if (point.layout() > layout_) {
    shards_.clear();
    shards_heard_ms_.clear();
    layout_ = point.layout();
  }
  int64_t& heard_ms = shards_heard_ms_[ShardId(point.shard())];
  const int64_t silent_ms = heard_ms == 0 ? 0 : timestamp_ms - heard_ms;
  heard_ms = std::max(heard_ms, timestamp_ms);
  const auto known = shards_.find(ShardId(point.shard()));
  // A server that stays after the end of its job goes on sending what is the end.
  bool still_ended = false;
  if (known != shards_.end()) {
    const Clock before = SumOfClocks(known->second);
    // A server that was replaced may still send a point: it knows less than its successor.
    if (SumOfClocks(point) < before) return;
    still_ended = known->second.ended() && SumOfClocks(point) == before;
  }
  shards_[ShardId(point.shard())] = point;
  if (still_ended) shards_[ShardId(point.shard())].set_ended(true);
  last_server_ms_ = std::max(last_server_ms_, timestamp_ms);
  groups_.Fold(point);
  Combine();
  NoteClocks(timestamp_ms, point);

  const Sample sample = MakeSample(timestamp_ms);
  if (!begin_) {
    if (server_->updates() == 0) {
      idle_ = sample;
    } else {
      const bool idled = idle_ && timestamp_ms - idle_->timestamp_ms <= kIdlePointMs;
      begin_ = idled ? *idle_ : sample;
    }
  }
  if (ended() && !end_ms_) end_ms_ = timestamp_ms;
  staleness_max_ = std::max(staleness_max_, server_->staleness());

  speed_.Add({timestamp_ms, sample.newest_clock, sample.rounds, sample.rows, sample.rows_trained},
             silent_ms);
  samples_.push_back(sample);
  while (timestamp_ms - samples_.front().timestamp_ms > kSamplesKeptMs) samples_.pop_front();
  ResolveEvaluations(false);
  if (begin_ && (timestamp_ms >= next_progressive_ms_ || ended())) {
    next_progressive_ms_ = timestamp_ms + kProgressiveEveryMs;
    AddProgressivePoints();
  }
}

// Rows that the topic had before are read much faster than others are sent, but none is sent then.
void JobProgress::FoldStreamSpeed(int64_t timestamp_ms) {
  const uint64_t rows = producer_->rows_sent();
  stream_speed_.Add({.timestamp_ms = timestamp_ms, .steps = rows, .rows = rows},
                    producer_ms_ == 0 ? 0 : timestamp_ms - producer_ms_);
}

void JobProgress::NoteClocks(int64_t timestamp_ms, const ServerPoint& point) {
  for (const WorkerProgress& worker : point.workers()) {
    Moved& moved = worker_moved_[WorkerId(worker.worker())];
    if (worker.clock() <= moved.clock) continue;
    moved.took_before_ms = moved.took_ms;
    if (moved.since_ms > 0) moved.took_ms = timestamp_ms - moved.since_ms;
    moved.clock = Clock(worker.clock());
    moved.since_ms = timestamp_ms;
    moved_ms_ = std::max(moved_ms_, timestamp_ms);
  }
}

int64_t JobProgress::worker_moved_ms(WorkerId worker) const {
  const auto found = worker_moved_.find(worker);
  return found == worker_moved_.end() ? 0 : found->second.since_ms;
}

int64_t JobProgress::update_takes_ms() const {
  int64_t longest_ms = 0;
  for (const auto& [worker, moved] : worker_moved_) {
    const int64_t took_ms = moved.took_ms.value_or(0);
    longest_ms = std::max(longest_ms, std::min(took_ms, moved.took_before_ms.value_or(took_ms)));
  }
  return longest_ms;
}

// Each group of servers has workers and rows of its own, of which its first shard tells.
bool JobProgress::IsFirstOfAnotherGroup(const ServerPoint& point) {
  if (point.group() == 0 || point.groups() <= 1) return false;
  const uint32_t shards = std::max(point.shards() / point.groups(), 1U);
  return point.shard() % shards == 0;
}

void JobProgress::Combine() {
  ServerPoint all = shards_.begin()->second;  // the least shard: 0, as a rule
  for (auto shard = std::next(shards_.begin()); shard != shards_.end(); ++shard) {
    const ServerPoint& point = shard->second;
    all.set_rounds(std::min(all.rounds(), point.rounds()));
    all.set_updates(all.updates() + point.updates());
    all.set_duplicates_ignored(all.duplicates_ignored() + point.duplicates_ignored());
    all.set_non_finite_updates(all.non_finite_updates() + point.non_finite_updates());
    all.set_refused(all.refused() + point.refused());
    all.set_time_jumps(all.time_jumps() + point.time_jumps());
    all.set_aborted_checkpoints(std::max(all.aborted_checkpoints(), point.aborted_checkpoints()));
    all.set_staleness(std::max(all.staleness(), point.staleness()));
    all.set_unsaved_updates(std::max(all.unsaved_updates(), point.unsaved_updates()));
    if (!IsFirstOfAnotherGroup(point)) continue;
    all.set_rows_trained(all.rows_trained() + point.rows_trained());
    all.set_rows_counted(all.rows_counted() + point.rows_counted());
    all.mutable_workers()->MergeFrom(point.workers());
  }
  server_ = std::move(all);
}

const MetricPoint::ServerProgress& JobProgress::slowest_shard() const {
  return std::min_element(
             shards_.begin(), shards_.end(),
             [](const auto& a, const auto& b) { return a.second.rounds() < b.second.rounds(); })
      ->second;
}

bool JobProgress::shard_stopped(ShardId shard) const {
  const auto found = shards_.find(shard);
  return found != shards_.end() && found->second.stopped();
}

std::optional<int64_t> JobProgress::stopped_ms() const {
  if (!server_ || shards_.size() < server_->shards()) return std::nullopt;
  std::optional<int64_t> last_ms;
  for (const auto& [shard, point] : shards_) {
    if (point.stopped()) {
      last_ms = std::max(last_ms.value_or(0), shards_heard_ms_.at(shard));
    } else if (!point.ended()) {
      return std::nullopt;
    }
  }
  return last_ms;
}

std::map<ShardId, MetricPoint::ServerProgress::Recovery> JobProgress::recoveries() const {
  std::map<ShardId, ServerPoint::Recovery> recoveries;
  for (const auto& [shard, point] : shards_) {
    if (point.has_recovery()) recoveries[shard] = point.recovery();
  }
  return recoveries;
}

JobProgress::Sample JobProgress::MakeSample(int64_t timestamp_ms) const {
  return {timestamp_ms,          server_->rounds(),       rows_tested(),
          NewestClock(*server_), server_->rows_trained(), server_->train_loss()};
}

void JobProgress::FoldEvaluation(int64_t timestamp_ms, const MetricPoint::Evaluation& evaluation) {
  evaluations_come_ = true;
  last_evaluation_ = last_evaluation_ || evaluation.last();
  holdout_ = evaluation.holdout();
  test_rows_rejected_ = evaluation.rows_rejected();
  waiting_.push_back({timestamp_ms, evaluation});
  ResolveEvaluations(false);
}

// An evaluation tells its clock; the server's points around it tell the rows.
void JobProgress::ResolveEvaluations(bool all) {
  while (!waiting_.empty()) {
    const auto& [timestamp_ms, evaluation] = waiting_.front();
    const auto first_after = std::find_if(
        samples_.begin(), samples_.end(),
        [&](const Sample& sample) { return sample.newest_clock >= evaluation.clock(); });
    if (first_after == samples_.end() && !all) return;
    CurvePoint point;
    point.kind = CurvePoint::Kind::kHoldout;
    point.timestamp_ms = timestamp_ms;
    point.shard = ShardId(evaluation.shard());
    point.clock = Clock(evaluation.clock());
    point.figures = evaluation.holdout();
    if (!samples_.empty()) {
      const Sample& after = first_after == samples_.end() ? samples_.back() : *first_after;
      // After the newest point nothing is known, before the first there is the stream's start.
      const Sample before = first_after == samples_.end()     ? after
                            : first_after == samples_.begin() ? Sample()
                                                              : *std::prev(first_after);
      const uint64_t span = after.newest_clock - before.newest_clock;
      const double share = span == 0 ? 1
                                     : static_cast<double>(point.clock - before.newest_clock) /
                                           static_cast<double>(span);
      const auto between = [share](uint64_t low, uint64_t high) {
        const uint64_t step = high > low ? high - low : 0;
        return low + static_cast<uint64_t>(share * static_cast<double>(step));
      };
      point.rows_tested = between(before.rows, after.rows);
      point.rows_trained = between(before.rows_trained, after.rows_trained);
      point.train_loss = after.train_loss;
    }
    waiting_.pop_front();
    AddToCurve(std::move(point));
  }
}

void JobProgress::AddProgressivePoints() {
  CurvePoint point;
  point.timestamp_ms = last_server_ms_;
  point.shard = ShardId(server_->shard());
  point.clock = NewestClock(*server_);
  point.rows_tested = rows_tested();
  point.rows_trained = server_->rows_trained();
  point.train_loss = server_->train_loss();
  if (server_->progressive().rows() > 0) {
    point.kind = CurvePoint::Kind::kProgressive;
    point.figures = server_->progressive();
    AddToCurve(point);
  }
  if (server_->tail().rows() > 0) {
    point.kind = CurvePoint::Kind::kTail;
    point.figures = server_->tail();
    AddToCurve(point);
  }
  if (server_->window().rows() > 0 && server_->window_end() > window_end_) {
    window_end_ = server_->window_end();
    point.kind = CurvePoint::Kind::kWindow;
    point.rows_tested = window_end_;
    point.figures = server_->window();
    AddToCurve(std::move(point));
  }
}

void JobProgress::AddToCurve(CurvePoint point) {
  // The untrained model is far from all others: it would flatten the curve. The log has it.
  if (point.rows_tested > 0) curves_[static_cast<size_t>(point.kind)].Add(point);
  new_points_.push_back(std::move(point));
}

std::vector<CurvePoint> JobProgress::TakeCurvePoints() { return std::exchange(new_points_, {}); }

void JobProgress::Finish() { ResolveEvaluations(true); }

uint64_t JobProgress::rows_tested() const {
  if (!server_) return 0;
  return std::max(
      {server_->progressive().rows(), server_->rows_trained(), server_->rows_counted()});
}

uint64_t JobProgress::rows_read() const {
  const uint64_t trained = server_ ? server_->rows_trained() : 0;
  return std::max(producer_->rows_read(), producer_->rows_rejected() + trained);
}

std::optional<uint64_t> JobProgress::rows_replaced() const {
  if (!ended() || server_->training().schedule() != Training::BUFFER) return std::nullopt;
  if (!producer_ || !producer_->ended()) return std::nullopt;
  // (Rows outside of a mini-batch are tested, but not trained on.)
  const uint64_t used = std::max(server_->progressive().rows(), server_->rows_trained());
  const uint64_t left_out = producer_->rows_rejected() + server_->undecodable_rows() + used;
  return producer_->rows_read() - std::min(producer_->rows_read(), left_out);
}

std::optional<double> JobProgress::duration_seconds() const {
  if (!begin_) return std::nullopt;
  // Servers on several machines have several clocks: the end may be stamped before the begin.
  const int64_t end_ms = std::max(end_ms_.value_or(last_server_ms_), begin_->timestamp_ms);
  return static_cast<double>(end_ms - begin_->timestamp_ms) / 1000;
}

std::optional<double> JobProgress::WholeRate(uint64_t now, uint64_t begin) const {
  const double seconds = duration_seconds().value_or(0);
  if (seconds < kLeastSecondsOfARate) return std::nullopt;
  return static_cast<double>(Since(begin, now)) / seconds;
}

std::optional<double> JobProgress::rounds_per_second() const {
  if (!begin_) return std::nullopt;
  return WholeRate(server_->rounds(), begin_->rounds);
}

std::optional<double> JobProgress::rows_per_second() const {
  if (!begin_) return std::nullopt;
  const Sample now = MakeSample(last_server_ms_);
  return TrainedRowsCount() ? WholeRate(now.rows_trained, begin_->rows_trained)
                            : WholeRate(now.rows, begin_->rows);
}

// Rows of later epochs are counted only as rows that updates have passed.
bool JobProgress::TrainedRowsCount() const {
  const bool one_epoch = !producer_ || producer_->epochs_of_stream() <= 1;
  return server_->training().schedule() == Training::BUFFER && one_epoch;
}

std::optional<double> JobProgress::recent_rounds_per_second() const {
  const std::optional<RecentSpeed::Span> span = ended() ? std::nullopt : speed_.span();
  if (!span) return std::nullopt;
  return static_cast<double>(Since(span->begin.rounds, span->end.rounds)) / span->seconds;
}

std::optional<double> JobProgress::recent_rows_per_second() const {
  const std::optional<RecentSpeed::Span> span = ended() ? std::nullopt : speed_.span();
  if (!span) return std::nullopt;
  const uint64_t rows = TrainedRowsCount() ? Since(span->begin.rows_trained, span->end.rows_trained)
                                           : Since(span->begin.rows, span->end.rows);
  return static_cast<double>(rows) / span->seconds;
}

std::optional<JobProgress::StreamShare> JobProgress::stream_share() const {
  if (!producer_) return std::nullopt;
  StreamShare share;
  if (producer_->ended()) {
    share.rows = producer_->rows_sent();
    share.sent = 1;
  } else {
    if (producer_->bytes_total() == 0 || producer_->bytes_read() == 0) return std::nullopt;
    share.sent = Share(producer_->bytes_read(), producer_->bytes_total());
    // Rows are read ahead of what Kafka has confirmed, and counted in the first pass only.
    const uint64_t rejected = std::min(producer_->rows_rejected(), producer_->rows_read());
    const uint64_t rows = producer_->rows_read() - rejected;
    const double of_stream = producer_->epoch_of_stream() > 1
                                 ? static_cast<double>(rows) * producer_->epochs_of_stream()
                                 : static_cast<double>(rows) / share.sent;
    // A share that is next to nothing makes of it more than a number can hold.
    share.rows = static_cast<uint64_t>(std::min(of_stream, kMostRowsShown));
  }
  const bool every_row_counts = !server_ || server_->training().schedule() == Training::ONE_PASS;
  // Two clients' points: the one of the rows trained on may be the newer one.
  share.learnt = ended() ? 1
                         : std::min(share.sent, every_row_counts ? Share(rows_tested(), share.rows)
                                                                 : share.sent);
  return share;
}

std::optional<double> JobProgress::seconds_left() const {
  const std::optional<StreamShare> share = stream_share();
  if (!share || ended()) return std::nullopt;
  if (server_ && server_->training().schedule() == Training::BUFFER) {
    // The stream sets the pace.
    const std::optional<RecentSpeed::Span> span = stream_speed_.span();
    if (!span || share->sent >= 1 || stream_speed_.stands_still()) return std::nullopt;
    const double rate =
        static_cast<double>(Since(span->begin.rows, span->end.rows)) / span->seconds;
    if (rate <= 0) return std::nullopt;
    return static_cast<double>(Since(producer_->rows_sent(), share->rows)) / rate;
  }
  const std::optional<double> rate = recent_rows_per_second();
  if (!rate || *rate <= 0 || speed_.stands_still()) return std::nullopt;
  return static_cast<double>(Since(rows_tested(), share->rows)) / *rate;
}

bool JobProgress::ended() const {
  return server_ && shards_.size() >= server_->shards() &&
         std::all_of(shards_.begin(), shards_.end(),
                     [](const auto& entry) { return entry.second.ended(); });
}

bool JobProgress::complete() const {
  return ended() && (!evaluations_come_ || last_evaluation_) && (!producer_ || producer_->ended());
}

std::string ConsistencyName(const Training& training) {
  switch (training.consistency().model()) {
    case Training::Consistency::SEQUENTIAL:
      return "sequential";
    case Training::Consistency::EVENTUAL:
      return "eventual";
    case Training::Consistency::BOUNDED:
      return absl::StrCat("bounded:", training.consistency().max_delay());
  }
  return "";
}

std::string ScheduleName(const Training& training) {
  return training.schedule() == Training::BUFFER ? "buffer" : "one-pass";
}

std::string LearnerName(const Training& training) {
  if (training.update().kind() == Training::Update::ONLINE) return "online";
  if (training.update().kind() == Training::Update::WEIGHT_CHANGE) {
    return training.update().solver() == Training::Update::LBFGS ? "lbfgs, averaged"
                                                                 : "local sgd, averaged";
  }
  std::string name = Training::Optimizer::Kind_Name(training.optimizer().kind());
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  const bool is_external = training.model() == Training::EXTERNAL;  // and has other handlers, maybe
  return absl::StrCat(is_external ? "external, " : "", name, " ",
                      training.optimizer().learning_rate());
}

}  // namespace millrace
