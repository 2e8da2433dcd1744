// What a shard's state has to be at each position of `gradients`, by other code than the shard's.
//
// Nothing but the generated messages is shared with what it judges: no frame, key or slice decoder,
// no vector clock, no policy, no optimizer, no sums. Where floats are added, their order is part of
// the protocol (it makes a repeated run the same bytes), so it is written down here once more.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "messages/records.pb.h"
#include "messages/training.pb.h"
#include "tests/simulation/plain_handlers.h"

namespace millrace::simulation {

// Sums of squares that were added in another order.
inline bool Near(double a, double b, double scale) {
  return std::abs(a - b) <= 1e-9 * (1 + std::abs(scale));
}

class Referee {
 public:
  // What the shard has of a named parameter.
  struct NamedJob {
    uint64_t begin = 0;  // of the shard's keys
    uint64_t keys = 0;   // 0: nothing
    PlainHandler handler;
    size_t row_width = 0;  // of a table
  };
  struct Job {
    uint64_t epoch = 1;
    uint32_t workers = 1;
    uint32_t first_workers = 1;  // so many of them are there from the beginning
    uint32_t shards = 1;
    uint32_t classes = 2;
    uint32_t numeric = 0;
    int32_t shard = 0;
    uint64_t begin = 0;           // of the shard's keys
    uint64_t keys = 0;            // how many it has
    uint64_t penalised_keys = 0;  // so many of its first
    uint64_t linear_keys = 0;     // the same: what is not a network's
    std::vector<float> born;      // its weights before anything is learnt
    // Those of its embedding rows that anybody names, the same; `row_width` floats each.
    std::map<uint64_t, std::vector<float>> born_rows;
    uint32_t row_width = 0;        // 0: there are none
    uint32_t row_linear = 1;       // of a row: what is not a factor
    float row_l2 = 0;              // penalty of a row, FTRL's not counted
    bool alone = true;             // the job has no other shard
    uint64_t least_window = 1000;  // rows of a window
    uint64_t block_rows = 50;      // of losses that are watched for drift
    uint64_t first_blocks = 20;    // by which none is found
    uint64_t race_begin = 0;    // of an online learner: the job's keys up to here are of features
    uint64_t newton_begin = 0;  // and from here on sums of how numeric columns go together
    std::vector<NamedJob> parameters;  // of trainers of one's own; none: a model of ours
    Training training;
  };

  struct Sums {
    uint64_t rows = 0;
    double log_loss = 0;
    std::map<uint32_t, uint64_t> cells;
    std::map<uint32_t, uint64_t> bins;
    // By bin: rows, those of them that are right, and the sum of their probabilities.
    std::map<uint32_t, std::array<uint64_t, 3>> calibration;
    std::vector<double> numbers;  // of a regression, as the message has them
    uint64_t absolute_rows = 0;
    uint64_t unpredicted = 0;
  };
  struct Column {
    double count = 0;
    double mean = 0;
    double m2 = 0;
  };
  // Of the targets, and the votes for keeping estimates to it.
  struct Range {
    double least = 0;
    double most = 0;
    double votes = 0;
  };
  // What is watched for drift: the losses of the blocks since the last one, and of the rows since
  // the last block.
  struct Watch {
    struct Block {
      uint64_t rows = 0;
      double loss = 0;  // the mean
      bool operator==(const Block&) const = default;
    };
    std::vector<Block> blocks;
    Block open;  // its loss is the sum
    uint64_t drifts = 0;
    // Of the last drift.
    uint64_t row = 0;
    uint64_t found_at = 0;
    uint64_t clock = 0;
    double before = 0;
    double after = 0;
  };
  // What follows from the blocks of a watch.
  struct Page {
    double mean = 0;
    double variance = 0;
    double sum = 0;
    size_t begin = 0;  // the block from which on it has grown
    double from = 0;   // the mean before it
  };
  // An embedding row, from the first update on that names it.
  struct Row {
    uint32_t updates = 0;  // up to those that it takes to be stored
    int64_t last_ms = 0;
    std::vector<float> values;  // none before it is stored
    std::vector<float> slots;
    std::vector<float> stored;  // the values after the last update that named it
  };
  using Rows = std::map<uint64_t, Row>;
  struct NamedState {
    bool is_table = false;
    std::optional<uint64_t> from;  // the first clock that has values; empty: nobody has put any
    uint64_t updates = 0;
    bool operator==(const NamedState&) const = default;
  };
  // Chunks that have come of a message.
  struct Unfinished {
    uint64_t id = 0;
    uint32_t count = 0;
    std::vector<std::string> chunks;
  };
  // How far rows are counted, so many updates after the last that brought new ones, and how far
  // they have been repeated.
  struct Counted {
    uint64_t end = 0;
    uint64_t without = 0;
    uint64_t repeated = 0;
    bool operator==(const Counted&) const = default;
  };
  struct Member {
    uint64_t clock = 0;
    bool left = false;
    std::deque<std::shared_ptr<const Gradient::Update>> held;  // oldest first
    Counted rows;
    std::vector<Counted> rows_before;  // one clock ago, two clocks ago, ... (Pipeline())
    uint32_t buffer_rows = 0;
    std::vector<Unfinished> unfinished;
    std::optional<uint64_t> cut;               // of State::snapshot
    std::optional<uint64_t> last_cut;          // where the job goes over to other shards
    uint64_t joined = 0;                       // the running job, at this clock; 0: it has not
    std::deque<std::vector<uint64_t>> wanted;  // oldest first
  };
  struct State {
    std::vector<Member> members;
    std::shared_ptr<const std::vector<float>> weights;
    std::shared_ptr<const std::vector<float>> slots;
    // Sequential, and not alone: what the last round found.
    std::shared_ptr<const std::vector<float>> old_weights;
    std::vector<Column> old_columns;
    Range old_range;
    std::vector<uint64_t> old_class_rows;
    uint64_t old_drifts = 0;
    std::shared_ptr<const Rows> rows;
    std::shared_ptr<const Rows> old_rows;
    std::shared_ptr<const std::vector<NamedState>> named;  // by number
    // Newest time of an update or leave that was taken; what it was at the last step, and at the
    // one before.
    int64_t seen_ms = 0;
    int64_t step_ms = 0;
    int64_t old_step_ms = 0;
    std::shared_ptr<const Sums> progressive;
    std::shared_ptr<const Sums> tail;
    // Of the rows tested since the last window was full; of that window, and of all rows at its
    // end.
    std::shared_ptr<const Sums> window_open;
    std::shared_ptr<const Sums> window;
    uint64_t window_end = 0;
    std::shared_ptr<const Watch> watch;
    // Then, of a regression, the targets, and how far predictions were off (whose m2 nobody
    // knows).
    std::vector<Column> columns;
    Range range;
    std::vector<uint64_t> class_rows;  // of balanced classes; one for each
    uint64_t drifts = 0;     // of a job that acts on them: those that workers are told of,
    uint64_t forgotten = 0;  // and those that updates have told of
    uint64_t steps = 0;
    uint64_t rows_trained = 0;
    double train_loss = 0;
    uint64_t accepted = 0;
    uint64_t duplicates = 0;
    uint64_t poisoned = 0;
    uint64_t refused = 0;
    uint64_t undecodable_rows = 0;
    uint64_t time_jumps = 0;
    uint64_t parts_before_put = 0;
    // Changes of the number of workers: the last that came to pass, and the size since; of shard 0
    // the last that workers are told of, what they were told the round before, and the last
    // ordered.
    uint64_t resize = 0;
    uint32_t size = 0;
    uint64_t told = 0;
    uint32_t told_size = 0;
    uint64_t old_told = 0;
    uint32_t old_told_size = 0;
    uint64_t ordered = 0;
    uint32_t ordered_size = 0;
    uint64_t snapshot = 0;  // the newest that has begun
    uint64_t snapshot_cancelled = 0;
    uint64_t request = 0;      // the number of the request that led to it
    uint64_t periodic_at = 0;  // steps when a periodic one was last begun
    bool snapshot_open = false;
    uint32_t next_shards = 0;  // the job goes over to so many; 0: that is not known
    bool sealed = false;       // all have come to where it does
    size_t dead_letters = 0;   // of Referee::dead_letters(): how many the fold has led to so far
    // Who must be answered after the record in front of this state; or by what the last round
    // found.
    std::set<uint32_t> answered;
    std::map<uint32_t, uint64_t>
        replies;  // those of them who had said something else, in this message
    std::set<uint32_t> answered_with_old;
    std::vector<uint64_t> old_wanted;  // by whom is answered so
    // No copy of the shard was left: so many workers have reported what they have.
    bool lost = false;
    bool restored = false;  // it was lost before
    std::shared_ptr<const std::map<uint32_t, Gradient>> reports;
  };

  // An update that was taken.
  struct Accepted {
    int64_t position = 0;
    uint32_t worker = 0;
    uint64_t clock = 0;
    Counted before{};
    bool poisoned = false;
    bool targets_known = false;  // to the shard, when it came
    Gradient::Update message;    // as it came
  };
  struct Letter {
    std::string topic;
    int32_t partition = 0;
    int64_t offset = 0;
    bool operator==(const Letter&) const = default;
  };

  explicit Referee(Job job);

  // The shard is this at position 0. REQUIRES: nothing was appended.
  void StartFrom(State state);
  // The next record of `gradients`, from offset 0 on.
  void Append(const std::string& key, const std::string& value, int64_t timestamp_ms);

  // The shard has lost its state and goes on at `position`, after so many dead letters; what was
  // appended from there on is to be appended once more. (referee_losses.cc)
  void Lose(int64_t position, size_t dead_letters);
  bool was_lost() const { return was_lost_; }
  // All workers have reported, and none of them has weights.
  bool IsBeyondHelp() const;

  int64_t end() const { return static_cast<int64_t>(states_.size()) - 1; }
  // The state in front of the record at `position`.
  const State& At(int64_t position) const { return states_.at(static_cast<size_t>(position)); }
  const State& now() const { return states_.back(); }
  // If the record in front of `position` has brought the shard to a cut: the state there, before
  // what is held back at it is taken, as At(position) has it. Null: it has not.
  const State* AtCut(int64_t position) const;
  const Job& job() const { return job_; }
  const std::vector<Accepted>& accepted() const { return accepted_; }
  const std::vector<Letter>& dead_letters() const { return dead_letters_; }

  bool IsReleased(const State& state, uint32_t worker) const;
  // clock(worker) - minimum over those that have not left.
  uint64_t Ahead(const State& state, uint32_t worker) const;
  // As many floats as the row has where it travels; in a shard all have job().row_width.
  size_t WidthOf(uint64_t id) const;
  // What the row is to whoever reads it: its values, or those that it is born with.
  std::vector<float> RowOf(const State& state, uint64_t id) const;
  std::vector<float> OldRowOf(const State& state, uint64_t id) const;
  // No update has named it for so long that it is as if it had never been.
  bool IsOver(const Row& row, int64_t now_ms) const;
  // Of the job's consistency; empty: none.
  std::optional<uint64_t> Bound() const;
  // So many updates of a worker may be under way at once.
  uint64_t Pipeline() const;
  // An L2 penalty shrinks the rows that a step does not name: step by step here, which rounds
  // otherwise.
  bool ShrinksRows() const;
  // Page's test of all blocks, one after the other.
  Page PageOf(const Watch& watch) const;
  bool SameRow(const std::vector<float>& expected, const std::vector<float>& is) const;
  // The named parameters that have values; with a clock, at that clock.
  static std::vector<uint32_t> WithValues(const State& state, std::optional<uint64_t> at = {});

  // Takes a record's value apart; joins chunks with those in `unfinished`. Empty when there is no
  // whole message (yet); `bad` says whether the bytes make no sense.
  static std::optional<std::string> Join(const std::string& value,
                                         std::vector<Unfinished>& unfinished, bool& bad);

 private:
  using Reports = std::map<uint32_t, Gradient>;  // by worker

  bool Fits(const Gradient& message) const;
  // Puts values in 16 bits where those in 32 would stand; false: they are not as the job has them.
  bool Unpack(Gradient::Update& message) const;
  static void SeeTime(State& state, int64_t timestamp_ms);
  static void Reply(State& state, const Gradient& message);
  // Whether the update or leave is what comes next of its worker.
  bool IsDue(const Member& member, const Gradient& message) const;
  void KeepWanted(Member& member, std::vector<uint64_t> wanted) const;
  static void Count(Member& member, const Gradient::Update& update);
  void Take(State& state, uint32_t worker, Gradient::Update message);
  void Leave(State& state, const Gradient& message);
  void FinishRound(State& state);
  void TakeNow(State& state, uint32_t worker, const Gradient::Update& message);
  // Changes of the number of workers (referee_resize.cc).
  void Order(State& state, const Gradient::Resize& order) const;
  bool NoCutIsOpen(const State& state) const;
  bool AllAreKnown(const State& state) const;
  static bool AnyoneIsThere(const State& state);
  void ResizeAtOnce(State& state) const;
  void ResizeByRound(State& state, uint64_t number, uint32_t size) const;
  void LetIn(State& state, uint64_t number, uint32_t size) const;
  static void Join(State& state, uint32_t worker, uint64_t clock);
  void HearOfJoin(State& state, uint32_t worker, uint64_t clock) const;
  // Snapshots (referee_snapshots.cc).
  bool Request(State& state, const Gradient& message);  // false: it is none
  // A new snapshot may begin: every shard has come to the last cut and knows all workers.
  bool MayBegin(const State& state) const;
  void Begin(State& state, uint64_t id) const;
  void BeginPeriodic(State& state) const;
  void NoteCut(State& state, uint32_t worker, const SnapshotMark& mark) const;
  void OrderShards(State& state, const Gradient::Reshard& order) const;
  static bool IsAtLastCut(const Member& member);
  static void ComeToLastCut(State& state);
  // What may still be said to a sealed shard changes nothing.
  void TakeWhileSealed(State& state, const Gradient& message);
  void TakeAsk(State& state, const Gradient& message);
  bool IsHeldAtCut(const State& state, const Member& member) const;
  void ComeToCut(State& state);
  void LeaveCut(State& state);
  // Who had been held back and is no longer.
  void AnswerReleased(const State& before, State& state) const;
  void StepBy(State& state, const std::vector<const Gradient::Update*>& messages, double share_of);
  // Updates are changes that are added up as they are.
  bool AddsUp() const { return job_.training.update().kind() == Training::Update::ONLINE; }
  // Of the parameters the first are `penalised`, and the first `linear`.
  void Optimise(uint64_t steps, const std::vector<float>& gradient, std::vector<float>& weights,
                std::vector<float>& slots, size_t penalised, size_t linear) const;
  // Named parameters (referee_parameters.cc).
  struct Combined {  // of a round's updates
    std::vector<float> sum;
    std::vector<float> last;
    double weight = 0;
    size_t count = 0;
    bool is_finite = true;
  };
  bool PartsFit(const google::protobuf::RepeatedPtrField<ParameterPart>& parts) const;
  bool ParametersFit(const Gradient::Update& update) const;
  void StepNamed(State& state, const std::vector<const Gradient::Update*>& messages);
  Combined Combine(const std::vector<const Gradient::Update*>& messages, uint32_t number,
                   bool has_values, State& state) const;
  // Tables (referee_tables.cc).
  struct TableStep {  // of a round's updates
    double weight = 0;
    std::map<uint64_t, std::vector<float>> sums;  // by row; of `assign` the last
    bool is_finite = true;
  };
  using TableSteps = std::map<uint32_t, TableStep>;  // by the tables' numbers among the parameters
  uint32_t TableOf(uint64_t id) const;
  bool TablesFit(const Gradient::Update& update) const;
  TableSteps CombineTables(const std::vector<const Gradient::Update*>& messages) const;
  void StepTables(State& state, const TableSteps& steps, std::vector<NamedState>& named) const;
  PlainNumber NumberOf(const NamedJob& parameter, size_t i, const std::vector<float>& weights,
                       const std::vector<float>& slots) const;
  void SetNumber(const NamedJob& parameter, size_t i, const PlainNumber& number,
                 std::vector<float>& weights, std::vector<float>& slots) const;
  // Lost state (referee_losses.cc).
  void TakeWhileLost(State& state, Gradient message) const;
  void TakeLateReport(State& state, const Gradient& message);
  bool GoOnFrom(State& state, const Reports& reports) const;  // false: none of them has weights
  // Embedding rows (referee_rows.cc).
  bool RowsFit(const Gradient& message) const;
  void ShrinkRow(uint64_t steps, Row& row) const;
  std::vector<float> Read(const Rows& rows, int64_t now_ms, uint64_t id) const;
  void StepRows(State& state, const std::vector<const Gradient::Update*>& messages,
                float mean) const;
  void Tally(State& state, uint32_t worker, const Gradient::Update& message);
  // Watches the losses of rows that were tested, and forgets (referee_drift.cc).
  void SeeLoss(State& state, uint64_t clock, const EvaluationSumsMessage& sums) const;
  void ForgetBy(State& state, const std::vector<const Gradient::Update*>& messages) const;
  double LossOf(const State& state, const EvaluationSumsMessage& sums) const;
  void Bury(State& state, const google::protobuf::RepeatedPtrField<DeadLetter>& letters);

  Job job_;
  size_t slots_per_key_ = 0;
  std::vector<State> states_;
  std::map<int64_t, State> cuts_;
  std::vector<Accepted> accepted_;
  std::vector<Letter> dead_letters_;
  bool was_lost_ = false;
};

}  // namespace millrace::simulation
