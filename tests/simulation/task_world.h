// Trainers that ask masters for tasks, and the masters' log between them.
#pragma once

#include <cstdint>

#include "tests/simulation/seed_outcome.h"

namespace millrace::simulation {

// Errors made on purpose, at the seams: does the simulator notice?
enum class TaskError {
  kNone,
  kCountsAnother,           // a result that counts no more is taken for one of another task
  kLeasesTwice,             // a task that somebody has is dealt out again
  kAnswersBeforeTheCommit,  // out of a state that `plan` does not have yet
  kForgetsTheUntold,        // a trainer that asks again does not get what a dead master leased
  kGivesToAnybody,          // it is given to whoever asks
  kMissesADeath,            // what a dead process had is left with it
  kMissesTicks,             // what is slow is left with who has it
  kCountsRepeats,           // a command that is repeated is taken for a new one
  kKeepsWhatNobodyGets,     // a task whose trainer has gone before the answer
  kDealsOutWhatIsLost,      // also where nothing is to be dealt out twice
  kCountsEvaluations,       // a task of an evaluation that is done is taken for one of training
  kEvaluatesTooEarly,       // before so many tasks are over
  kEndsTwice,               // that the task at the end is done is taken for its failure
};

// Runs the production fold and the production calls (processors/task_calls.h) on one seed: masters
// that are killed between any two steps and overtaken, transactions that are aborted, commands that
// strangers repeat, trainers that die, are slow, fail, and report twice or late. Evaluations and a
// task at the end may follow the set. Where nobody dies
// and nothing takes long, each task is given to one trainer once. Then all faults end, and the set
// must be done, each task once.
SeedOutcome RunTaskSeed(uint64_t seed, TaskError error = TaskError::kNone);

}  // namespace millrace::simulation
