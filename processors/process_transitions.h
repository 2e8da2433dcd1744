// What may happen to a process, and where it stands then: a table.
#pragma once

#include <span>

#include "messages/master.pb.h"

namespace millrace {

enum class ProcessEvent {
  kMayStart,       // the job is active, its back-off is over, and a slot is free
  kRuns,           // the launcher says so
  kDone,           // it ended with exit code 0
  kKilled,         // from outside, or its end is unknown
  kKilledSoon,     // so, but it had hardly begun: it may be killed each time that it starts
  kFailed,         // any other end
  kHopeless,       // another failure is one too many, or it would fail again in the same way
  kMustStop,       // its slot is needed, its command is another one, or the job is stopped
  kGone,           // it was told to stop, and ended, however it did
  kSteady,         // it has run for long
  kJobStops,       // it waits while the job is being stopped
  kAnotherChance,  // by a plan
};

struct ProcessTransition {
  enum class Failures { kKept, kCounted, kForgotten };  // in a row
  enum class NotBefore { kNow, kNextTick, kBackOff };   // may it be started

  ProcessState::Phase from;
  ProcessEvent event;
  ProcessState::Phase to;
  Failures failures = Failures::kKept;
  NotBefore not_before = NotBefore::kNow;
};

// The whole table: each pair of phase and event once.
std::span<const ProcessTransition> ProcessTransitions();
// Null: the event means nothing in that phase.
const ProcessTransition* FindTransition(ProcessState::Phase from, ProcessEvent event);

// Phases in which an incarnation may be running, and those of them in which it is to.
bool HoldsSlot(ProcessState::Phase phase);
bool IsToRun(ProcessState::Phase phase);

}  // namespace millrace
