// A machine on which a master's processes run, and what its launcher remembers of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "messages/master.pb.h"

namespace millrace::simulation {

// Errors made on purpose, at the seams: does the simulator notice?
enum class MasterError {
  kNone,
  kCountsOldReports,       // a report of an earlier incarnation is taken for one of the newest
  kStartsBeforeTheCommit,  // orders are carried out of a state that `plan` does not have yet
  kIgnoresSlots,
  kForgetsBackOff,       // a failure is taken for a kill from outside
  kKeepsStopToItself,    // a stop is carried out, but not written to `control`
  kRemembersReports,     // a report is made once, also when its transaction fails
  kForgetsChanges,       // what an aborted transaction was to write is not written again
  kIsNotFenced,          // an older master writes on
  kTakesUnseenForEnded,  // also what an older master may still start
  kLauncherForgets,      // an incarnation that was forgotten may be started again
  kStopsOnlyWhatRuns,    // a launcher that stops nothing that was not started yet
  kStartsWhatIsThere,    // a launcher that starts an incarnation as often as it is told to
  kForgetsALogicalWorker,
  kKeepsMoveToItself,   // a move of a shard is carried out, but not written to `control`
  kKeepsShardsForEver,  // a ServerApp that keeps the shards that it was given first
  kEndsBesideOthers,    // the process of the job's end does not wait for the others
  kEndsTwice,           // nor is it enough that it has done its work once
  kReadsThePlanOnce,    // a WorkerApp that keeps the workers that it was given first
};

// As launcher.h says. It has no log and no master; a violated promise is kept in violation().
class MasterMachine {
 public:
  explicit MasterMachine(MasterError error) : error_(error) {}

  struct Life {
    ProcessReport report;  // as it is seen
    std::vector<std::string> command;
    bool told_to_stop = false;
    bool runs() const { return !report.has_end(); }
  };

  // What happened, for coverage; "" where nothing did.
  std::string Start(const ProcessOrder& order);
  std::string Stop(const ProcessOrder& order);
  std::string Forget(const ProcessName& process, uint64_t before);
  std::vector<ProcessReport> Look() const;

  // Those that run, in order.
  std::vector<Life*> Running();
  static void End(Life& life, ProcessEnd::Cause cause, int code);
  const std::string& violation() const { return violation_; }

 private:
  using Key = std::pair<std::string, uint64_t>;  // name and incarnation
  bool IsForgotten(const std::string& name, uint64_t incarnation) const;
  Life& Add(const ProcessOrder& order);

  const MasterError error_;
  std::map<Key, Life> lives_;
  std::map<std::string, uint64_t> forgotten_;  // before this incarnation
  std::map<Key, int> starts_;                  // all there ever were
  std::string violation_;
};

}  // namespace millrace::simulation
