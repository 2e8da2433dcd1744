#include "tests/simulation/master_machine.h"

#include "topics/process_name.h"

namespace millrace::simulation {

bool MasterMachine::IsForgotten(const std::string& name, uint64_t incarnation) const {
  const auto before = forgotten_.find(name);
  return error_ != MasterError::kLauncherForgets && before != forgotten_.end() &&
         incarnation < before->second;
}

MasterMachine::Life& MasterMachine::Add(const ProcessOrder& order) {
  Life& life = lives_[{ToText(order.process()), order.incarnation()}];
  *life.report.mutable_process() = order.process();
  life.report.set_incarnation(order.incarnation());
  return life;
}

std::string MasterMachine::Start(const ProcessOrder& order) {
  const std::string name = ToText(order.process());
  const Key key(name, order.incarnation());
  if (IsForgotten(name, order.incarnation())) return "start of what was forgotten";
  if (lives_.contains(key) && error_ != MasterError::kStartsWhatIsThere) {
    return lives_.at(key).runs() ? "start repeated" : "start of what has ended";
  }
  for (const Life* life : Running()) {
    if (ToText(life->report.process()) == name) violation_ = name + " runs twice at a time";
  }
  if (++starts_[key] > 1) violation_ = name + " is started twice with one incarnation";
  Life& life = Add(order);
  life.report.clear_end();
  life.command.assign(order.command().begin(), order.command().end());
  if (life.command.front() != "/no/such/program") return "process started";
  End(life, ProcessEnd::NOT_STARTED, 0);
  return "program that cannot be executed";
}

std::string MasterMachine::Stop(const ProcessOrder& order) {
  const std::string name = ToText(order.process());
  if (IsForgotten(name, order.incarnation())) return "stop of what was forgotten";
  const auto found = lives_.find({name, order.incarnation()});
  if (found == lives_.end()) {
    if (error_ == MasterError::kStopsOnlyWhatRuns) return "";
    End(Add(order), ProcessEnd::SIGNALED, 15);
    return "stop of what was not started";
  }
  if (!found->second.runs()) return "stop of what has ended";
  if (found->second.told_to_stop) return "stop repeated";
  found->second.told_to_stop = true;
  return "process told to stop";
}

std::string MasterMachine::Forget(const ProcessName& process, uint64_t before) {
  const std::string name = ToText(process);
  uint64_t& forgotten = forgotten_[name];
  if (before <= forgotten) return "forgotten again";
  forgotten = before;
  for (auto life = lives_.lower_bound({name, 0}); life != lives_.lower_bound({name, before});) {
    if (life->second.runs()) violation_ = name + " runs and is forgotten";
    life = lives_.erase(life);
  }
  return "incarnation forgotten";
}

std::vector<ProcessReport> MasterMachine::Look() const {
  std::vector<ProcessReport> seen;
  for (const auto& [key, life] : lives_) seen.push_back(life.report);
  return seen;
}

std::vector<MasterMachine::Life*> MasterMachine::Running() {
  std::vector<Life*> running;
  for (auto& [key, life] : lives_) {
    if (life.runs()) running.push_back(&life);
  }
  return running;
}

void MasterMachine::End(Life& life, ProcessEnd::Cause cause, int code) {
  life.report.mutable_end()->set_cause(cause);
  life.report.mutable_end()->set_code(code);
}

}  // namespace millrace::simulation
