#include "processors/process_transitions.h"

namespace millrace {

std::span<const ProcessTransition> ProcessTransitions() {
  using P = ProcessState;
  using enum ProcessEvent;
  using enum ProcessTransition::Failures;
  using enum ProcessTransition::NotBefore;
  // clang-format off
  static constexpr ProcessTransition kTransitions[] = {
      // stands in    what happens     stands in then  failures     may be started
      {P::WAITING,    kMayStart,       P::STARTING,    kKept,       kNow},
      {P::WAITING,    kJobStops,       P::STOPPED,     kKept,       kNow},
      {P::WAITING,    kAnotherChance,  P::WAITING,     kForgotten,  kNow},
      {P::STARTING,   kRuns,           P::RUNNING,     kKept,       kNow},
      {P::STARTING,   kDone,           P::ENDED,       kForgotten,  kNow},
      {P::STARTING,   kKilledSoon,     P::WAITING,     kKept,       kNextTick},
      {P::STARTING,   kFailed,         P::WAITING,     kCounted,    kBackOff},
      {P::STARTING,   kHopeless,       P::FAILED,      kCounted,    kNow},
      {P::STARTING,   kMustStop,       P::STOPPING,    kKept,       kNow},
      {P::RUNNING,    kDone,           P::ENDED,       kForgotten,  kNow},
      {P::RUNNING,    kKilled,         P::WAITING,     kKept,       kNow},
      {P::RUNNING,    kKilledSoon,     P::WAITING,     kKept,       kNextTick},
      {P::RUNNING,    kFailed,         P::WAITING,     kCounted,    kBackOff},
      {P::RUNNING,    kHopeless,       P::FAILED,      kCounted,    kNow},
      {P::RUNNING,    kMustStop,       P::STOPPING,    kKept,       kNow},
      {P::RUNNING,    kSteady,         P::RUNNING,     kForgotten,  kNow},
      {P::STOPPING,   kGone,           P::WAITING,     kKept,       kNow},
      {P::ENDED,      kAnotherChance,  P::WAITING,     kForgotten,  kNow},
      {P::FAILED,     kAnotherChance,  P::WAITING,     kForgotten,  kNow},
      {P::STOPPED,    kAnotherChance,  P::WAITING,     kForgotten,  kNow},
  };
  // clang-format on
  return kTransitions;
}

const ProcessTransition* FindTransition(ProcessState::Phase from, ProcessEvent event) {
  for (const ProcessTransition& transition : ProcessTransitions()) {
    if (transition.from == from && transition.event == event) return &transition;
  }
  return nullptr;
}

bool HoldsSlot(ProcessState::Phase phase) {
  return IsToRun(phase) || phase == ProcessState::STOPPING;
}

bool IsToRun(ProcessState::Phase phase) {
  return phase == ProcessState::STARTING || phase == ProcessState::RUNNING;
}

}  // namespace millrace
