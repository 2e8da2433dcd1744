#include "tests/simulation/node_world.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "processors/master_processor.h"
#include "processors/node_calls.h"
#include "tests/processors/node_referee.h"
#include "tests/simulation/calling_masters.h"
#include "tests/simulation/random.h"
#include "tests/simulation/simulated_plan.h"
#include "topics/control_codec.h"
#include "topics/frame.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kTroubledNodeTurns = 900;
constexpr uint64_t kMostQuietNodeTurns = 40'000;
constexpr char kEndBarrier[] = "end";

using NodeMasters = CallingMasters<NodeCalls>;
using NodeThread = CallingThread<NodeCommand>;

// Changes a record of `plan` that is one frame.
template <typename Message, typename Change>
void Rewrite(std::string& value, Change change) {
  Message message;
  MILLRACE_CHECK(message.ParseFromString(value.substr(WholeFrameHeader().size())));
  change(message);
  value = WholeFrameHeader() + message.SerializeAsString();
}

// One that signs in a thread, and joins, waits and leaves in another.
struct SimulatedNode {
  std::string role;
  std::string instance;
  bool has_joined = false;  // and was told so
  uint32_t rank = 0;        // as it was told
  bool leaves = false;
  bool is_over = false;                    // it has left
  uint64_t stands_until = 0;               // a turn
  std::map<std::string, uint64_t> passed;  // how often each barrier
  NodeThread main;
  NodeThread signs;
};

class NodeWorld {
 public:
  NodeWorld(uint64_t seed, NodeError error) : random_(seed), error_(error) {
    timeout_ticks_ = random_.Between(2, 6);
    dies_ = random_.Chance(0.7);
    stands_ = random_.Chance(0.5);
    for (const char* role : {"ps", "worker"}) {
      for (uint64_t count = random_.Between(1, 4); count > 0; --count) AddNode(role);
    }
    ControlRecord tick = NewControl();
    tick.mutable_tick();
    Append(EncodeControl(tick));
  }

  SeedOutcome Run() {
    for (; turn_ < kTroubledNodeTurns && IsRight(); ++turn_) TroubledTurn();
    if (IsRight()) ComeToRest();
    return std::move(outcome_);
  }

 private:
  using Master = NodeMasters::Master;
  using Step = NodeMasters::Step;

  bool IsRight() const { return outcome_.violation.empty(); }
  void Violate(const std::string& what) {
    if (IsRight()) outcome_.violation = what;
  }
  void Cover(const std::string& what) { ++outcome_.coverage[what]; }

  // What happens.

  void TroubledTurn() {
    const uint64_t kind = random_.Below(100);
    if (masters_.empty() || (kind < 2 && masters_.has_room())) return masters_.Begin();
    if (kind < 4) return masters_.KillOne();
    if (kind < 7) return RepeatRecord();
    if (kind < 9) return Trouble(nodes_[random_.Below(nodes_.size())]);
    if (kind < 55) return MoveNode(nodes_[random_.Below(nodes_.size())]);
    MoveMaster(masters_.Draw());
  }

  void RepeatRecord() {
    const std::optional<std::string>& old = control_[random_.Below(control_.size())];
    if (!old || DecodeControl(*old, kMasterEpoch)->has_tick()) return;
    Cover("record repeated");
    Append(std::string(*old));
  }

  void Trouble(SimulatedNode& node) {
    if (dies_ && random_.Chance(0.4)) {
      Cover(node.main.call > 0 ? "death while a call waits" : "death");
      return Replace(node);
    }
    if (stands_ && random_.Chance(0.4)) {
      Cover("node stands still");
      node.stands_until = turn_ + random_.Between(20, 200);
      return;
    }
    if (random_.Chance(0.1)) node.leaves = true;
  }

  void AddNode(const std::string& role) {
    SimulatedNode& node = nodes_.emplace_back();
    node.role = role;
    node.instance = "i" + std::to_string(++instances_);
  }

  // Another process takes its place, and nobody is told.
  void Replace(SimulatedNode& node) {
    for (NodeThread* thread : {&node.main, &node.signs}) {
      if (random_.Chance(0.5)) GiveUp(*thread);  // otherwise its channel is seen to break later
    }
    const std::string role = node.role;
    node = {};
    node.role = role;
    node.instance = "i" + std::to_string(++instances_);
  }

  // A node.

  void GiveUp(NodeThread& thread) {
    if (Master* master = masters_.Of(thread); master != nullptr) master->calls->Remove(thread.call);
    thread.call = 0;
  }

  void MoveNode(SimulatedNode& node) {
    if (node.is_over || turn_ < node.stands_until) return;
    const bool signs = random_.Chance(0.5);
    NodeThread& thread = signs ? node.signs : node.main;
    if (thread.call > 0 && masters_.Of(thread) != nullptr) {
      if (!random_.Chance(0.1)) return;  // it waits
      Cover("node gives up waiting");
      GiveUp(thread);
      if (thread.wish->has_arrive()) thread.wish.reset();  // perhaps for another barrier
    }
    if (thread.call > 0) Cover("call broken");
    thread.call = 0;
    if (!thread.wish) thread.wish = signs ? DrawSign(node) : DrawWish(node);
    if (!thread.wish) return;
    Master* newest = masters_.Newest();
    if (newest == nullptr) return;
    thread.call = ++calls_;
    thread.fence = newest->fence;
    newest->calls->Add(thread.call, *thread.wish);
  }

  static std::optional<NodeCommand> DrawSign(const SimulatedNode& node) {
    if (!node.has_joined) return std::nullopt;
    NodeCommand command;
    command.set_sign(node.instance);
    return command;
  }

  std::optional<NodeCommand> DrawWish(SimulatedNode& node) {
    NodeCommand command;
    if (!node.has_joined) {
      command.mutable_join()->set_role(node.role);
      command.mutable_join()->set_instance(node.instance);
      command.mutable_join()->set_address(node.instance + ":7000");
      command.mutable_join()->set_timeout_ticks(timeout_ticks_);
      return command;
    }
    if (node.leaves) {
      command.set_leave(node.instance);
      return command;
    }
    NodeCommand::Arrive& arrive = *command.mutable_arrive();
    const bool is_own = !is_quiet_ && random_.Chance(0.4);
    arrive.set_role(is_own ? node.role : "");
    arrive.set_barrier(is_quiet_ ? kEndBarrier : is_own ? "of " + node.role : "all");
    arrive.set_instance(node.instance);
    arrive.set_passing(node.passed[arrive.barrier()] + 1);
    if (random_.Chance(0.5)) {
      arrive.set_value(node.instance + "." + std::to_string(arrive.passing()));
    }
    if (!is_quiet_ && random_.Chance(0.2)) {
      NodeCount& least = *arrive.add_least();
      least.set_role(node.role);
      least.set_nodes(2);
    }
    return command;
  }

  void TakeAnswer(SimulatedNode& node, NodeThread& thread, const StatusOr<NodeAnswer>& answer) {
    const NodeCommand wish = *std::exchange(thread.wish, std::nullopt);
    thread.call = 0;
    const NodeReferee::Node* known = newest_referee_.Find(node.instance);
    if (!answer.ok()) {
      // (Between the log and `plan` it may die, but it does not come to life.)
      if (known != nullptr && known->lives && !absl::IsAborted(answer.status())) {
        Violate("refused: " + std::string(answer.status().message()));
      }
      const bool has_left = wish.has_sign() && node.leaves;  // as the other thread is told
      if (absl::IsAborted(answer.status()) || has_left) return;
      Cover(wish.has_join() ? "join refused" : wish.has_sign() ? "sign refused" : "wait refused");
      return Replace(node);
    }
    if (wish.has_join()) {
      node.has_joined = true;
      node.rank = answer->member.rank();
      CheckRank(node);
      const bool is_so = known != nullptr && known->rank == node.rank;
      if (!is_so) Violate("a rank is told that `control` does not give");
    }
    if (wish.has_leave()) {
      Cover("node leaves");
      if (!is_quiet_) return Replace(node);
      node.is_over = true;
    }
    if (wish.has_arrive()) TakeRelease(node, wish.arrive(), answer->barrier);
  }

  void CheckRank(const SimulatedNode& node) {
    // One that is told late is dead by now, perhaps, and another has its rank.
    const NodeReferee::Node* self = newest_referee_.Find(node.instance);
    if (self == nullptr || !self->lives) return;
    for (const SimulatedNode& other : nodes_) {
      const NodeReferee::Node* known = newest_referee_.Find(other.instance);
      const bool lives = other.has_joined && known != nullptr && known->lives;
      if (!lives || &other == &node || other.role != node.role) continue;
      if (other.rank == node.rank) Violate("two nodes that live are told the same rank");
    }
  }

  void TakeRelease(SimulatedNode& node, const NodeCommand::Arrive& arrive,
                   const BarrierState& barrier) {
    ++node.passed[arrive.barrier()];
    const std::string said = NodeReferee::TextOf(barrier);
    if (said != newest_referee_.Release(arrive.barrier(), node.instance, arrive.passing())) {
      Violate("released from " + arrive.barrier() + ": " + said);
    }
    Cover(barrier.passed_deaths().empty() ? "barrier passed" : "barrier passed that names deaths");
    const auto has_value = [](const BarrierState::Arrival& arrival) {
      return !arrival.value().empty();
    };
    if (std::ranges::any_of(barrier.passed(), has_value)) Cover("barrier passed that gives values");
    if (barrier.arrived_size() > 0) Cover("release told while the next gathers");
    if (is_quiet_ && arrive.barrier() == kEndBarrier) node.leaves = true;
  }

  // A master.

  void MoveMaster(Master& master) {
    switch (master.step) {
      case Step::kFence:
        return masters_.Fence(master);
      case Step::kRestore:
        return Restore(master);
      case Step::kFold:
        FoldSome(master);
        master.step = Step::kCommit;
        return;
      case Step::kCommit:
        if (masters_.IsFenced(master)) return masters_.End(master);
        return Commit(master);
      case Step::kAnswer:
        Answer(master, master.processor->nodes());
        master.step = Step::kFold;
        return;
    }
  }

  void Restore(Master& master) {
    PlanRecords plan = plan_;
    if (error_ == NodeError::kLosesBarriers) {
      std::erase_if(plan, [](const auto& each) { return each.first.starts_with("barrier:"); });
    }
    if (error_ == NodeError::kForgetsReleases || error_ == NodeError::kLosesValues) Forget(plan);
    StatusOr<MasterProcessor> restored = MasterProcessor::Restore(kMasterEpoch, plan);
    if (!restored.ok()) return Violate("not restored: " + std::string(restored.status().message()));
    master.processor.emplace(*std::move(restored));
    master.next = static_cast<size_t>(int64_t{master.processor->next_offset()});
    while (master.next < control_.size()) FoldInto(*master.processor, master.next++);
    master.calls.emplace(static_cast<uint64_t>(int64_t{master.processor->next_offset()}));
    master.step = Step::kFold;
  }

  void Forget(PlanRecords& plan) const {
    for (auto& [key, value] : plan) {
      if (key == "state" && error_ == NodeError::kForgetsReleases) {
        Rewrite<MasterState>(value, [](MasterState& state) { state.clear_barrier_releases(); });
      } else if (key.starts_with("barrier:")) {
        Rewrite<BarrierState>(value, [this](BarrierState& barrier) {
          if (error_ == NodeError::kForgetsReleases) barrier.clear_release();
          if (error_ != NodeError::kLosesValues) return;
          for (BarrierState::Arrival& arrival : *barrier.mutable_arrived()) arrival.clear_value();
        });
      }
    }
  }

  void FoldSome(Master& master) {
    const size_t left = control_.size() - master.next;
    for (size_t count = random_.Chance(0.7) ? left : random_.Below(left + 1); count > 0; --count) {
      FoldInto(*master.processor, master.next++);
    }
  }

  void FoldInto(MasterProcessor& processor, size_t offset) {
    if (const std::optional<std::string>& value = control_[offset]; value) {
      processor.Fold(Offset(offset), AsMisread(processor.nodes(), *value));
    }
  }

  // What a fold with the planted error makes of a record.
  std::string AsMisread(const JobNodes& nodes, const std::string& value) const {
    if (error_ == NodeError::kNone) return value;
    ControlRecord record = *DecodeControl(value, kMasterEpoch);
    if (error_ == NodeError::kMissesTicks && record.has_tick()) return "damage";
    if (record.has_node()) Misread(nodes, *record.mutable_node());
    return EncodeControl(record);
  }

  void Misread(const JobNodes& nodes, NodeCommand& command) const {
    const bool is_new =
        std::pair(command.front(), command.number()) > std::pair(nodes.front(), nodes.number());
    if (error_ == NodeError::kCountsRepeats && !is_new) {
      command.set_front(nodes.front());
      command.set_number(nodes.number() + 1);
    }
    if (!command.has_sign()) return;
    const std::string instance = command.sign();
    for (const auto& [key, member] : nodes.members().members()) {
      const auto& earlier = member.earlier();
      const bool had_the_rank =
          std::find(earlier.begin(), earlier.end(), instance) != earlier.end();
      if (error_ == NodeError::kCountsTheDead && had_the_rank) command.set_sign(member.instance());
      if (error_ != NodeError::kReleasesWithoutANode || member.instance() != instance) continue;
      const auto all = nodes.barriers().barriers().find("all");
      if (all == nodes.barriers().barriers().end()) continue;
      const auto passed = all->second.passed.find(member.incarnation());
      NodeCommand::Arrive& arrive = *command.mutable_arrive();
      arrive.set_instance(instance);
      arrive.set_barrier("all");
      arrive.set_passing(passed == all->second.passed.end() ? 1 : passed->second.passing() + 1);
    }
  }

  void Commit(Master& master) {
    for (auto& change : master.processor->TakeChanges()) master.changes.push_back(change);
    std::vector<std::string> records;
    std::vector<NodeCommand> commands;
    if (master.next >= master.own_end) {
      commands = master.calls->TakeCommands(master.processor->nodes());
      for (const NodeCommand& command : commands) {
        ControlRecord record = NewControl();
        *record.mutable_node() = command;
        records.push_back(EncodeControl(record));
      }
      if (random_.Chance(is_quiet_ ? 0.05 : 0.2)) {
        ControlRecord tick = NewControl();
        tick.mutable_tick();
        records.push_back(EncodeControl(tick));
      }
    }
    if (!is_quiet_ && random_.Chance(0.05)) {
      Cover("transaction aborted");
      if (error_ == NodeError::kAnswersWhatIsNotWritten) {
        JobNodes imagined = master.processor->nodes();
        for (const NodeCommand& command : commands) imagined.Apply(command);
        Answer(master, imagined);
      }
      control_.insert(control_.end(), records.size() + 1, std::nullopt);
      master.step = Step::kFold;
      return;
    }
    WriteTo(plan_, master.changes);
    master.changes.clear();
    for (const std::string& record : records) Append(record);
    control_.push_back(std::nullopt);  // the marker
    if (!records.empty()) master.own_end = control_.size() - 1;
    master.step = Step::kAnswer;
    CheckCommit(*master.processor);
  }

  void Answer(Master& master, const JobNodes& state) {
    for (auto& [call, answer] : master.calls->TakeAnswers(state)) {
      if (error_ == NodeError::kGivesARankTwice && answer.ok()) CountTheLiving(state, *answer);
      if (masters_.IsFenced(master)) Cover("answer from an older master");
      for (SimulatedNode& node : nodes_) {
        if (node.main.call == call) {
          TakeAnswer(node, node.main, answer);
        } else if (node.signs.call == call) {
          TakeAnswer(node, node.signs, answer);
        }
      }
    }
  }

  // The rank as a master with the planted error tells it: right where nobody has died or left.
  static void CountTheLiving(const JobNodes& state, NodeAnswer& answer) {
    uint32_t living = 0;
    for (const auto& [key, member] : state.members().members()) {
      const bool counts = member.phase() == MemberState::LIVE && key.first == answer.member.role();
      living += counts ? 1 : 0;
    }
    answer.member.set_rank(living - 1);
  }

  // The log.

  void Append(const std::string& value) {
    control_.emplace_back(value);
    newest_seen_ = Tell(newest_referee_, newest_seen_, value);
  }

  // The last command that the referee has read.
  using Place = std::pair<uint64_t, uint64_t>;
  static Place Tell(NodeReferee& referee, Place seen, const std::string& value) {
    const ControlRecord record = *DecodeControl(value, kMasterEpoch);
    if (record.has_tick()) referee.Tick();
    if (!record.has_node()) return seen;
    const Place place(record.node().front(), record.node().number());
    if (place <= seen) return seen;
    referee.Apply(record.node());
    return place;
  }

  // What is in `plan` must be what follows from `control` up to its place.
  void CheckCommit(const MasterProcessor& committed) {
    const auto next = static_cast<size_t>(int64_t{committed.next_offset()});
    for (; referee_next_ < next; ++referee_next_) {
      const std::optional<std::string>& value = control_[referee_next_];
      if (value) referee_seen_ = Tell(referee_, referee_seen_, *value);
    }
    const StatusOr<MasterProcessor> stored = MasterProcessor::Restore(kMasterEpoch, plan_);
    if (!stored.ok()) return Violate("`plan`: " + std::string(stored.status().message()));
    const std::string text = NodeReferee::TextOf(stored->nodes());
    if (text != referee_.Text()) {
      Violate("`plan` is not what follows from `control`:\n" + text + "instead of\n" +
              referee_.Text());
    }
  }

  // When all faults have ended.

  void ComeToRest() {
    is_quiet_ = true;
    for (SimulatedNode& node : nodes_) {
      node.stands_until = 0;
      // Others do not come to the barriers of before any more.
      if (node.main.wish && node.main.wish->has_arrive()) {
        GiveUp(node.main);
        node.main.wish.reset();
      }
    }
    for (uint64_t end = turn_ + kMostQuietNodeTurns; turn_ < end && IsRight(); ++turn_) {
      if (!masters_.HasNewest()) masters_.Begin();
      if (random_.Chance(0.5)) {
        MoveMaster(masters_.Draw());
      } else {
        MoveNode(nodes_[random_.Below(nodes_.size())]);
      }
      if (std::ranges::all_of(nodes_, [](const SimulatedNode& node) { return node.is_over; })) {
        return;
      }
    }
    if (IsRight()) Violate("it does not come to an end");
  }

  Random random_;
  const NodeError error_;
  SeedOutcome outcome_;
  uint64_t timeout_ticks_ = 0;
  bool dies_ = false;
  bool stands_ = false;
  bool is_quiet_ = false;
  uint64_t turn_ = 0;

  std::vector<std::optional<std::string>> control_;  // by offset; empty: nothing to be read
  PlanRecords plan_;
  NodeMasters masters_{random_, outcome_};

  std::vector<SimulatedNode> nodes_;
  uint64_t instances_ = 0;
  uint64_t calls_ = 0;

  NodeReferee newest_referee_;  // reads all that is in `control`
  Place newest_seen_;
  NodeReferee referee_;  // reads all that is folded into `plan`
  Place referee_seen_;
  size_t referee_next_ = 0;
};

}  // namespace

SeedOutcome RunNodeSeed(uint64_t seed, NodeError error) { return NodeWorld(seed, error).Run(); }

}  // namespace millrace::simulation
