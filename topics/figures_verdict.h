// Whether a model has learnt anything: the one rule that every log and display goes by.
#pragma once

#include <optional>
#include <string>

#include "messages/records.pb.h"

namespace millrace {

// Who is told, which decides what he can do about it.
enum class FiguresOf {
  kJob,      // rows that were tested before they were learnt from; settings are flags
  kLearner,  // the same of a learner of the Python package; settings are its arguments
  kScored,   // labelled rows that a finished model was given
};

// Worse than who knows nothing but the classes' frequencies (log loss), or the mean of the targets
// (root mean squared error), of the same rows. What noise may cost is not held against it.
bool IsWorseThanPrior(const Figures& figures);

// What to say of such a model, and what to do about it: two sentences or more, the first without
// its capital, the last without its full stop. Empty when it is not worse, or has been tested on
// fewer than 1000 rows, whose figures are a matter of chance.
std::optional<std::string> WorseThanPriorText(const Figures& figures,
                                              FiguresOf of = FiguresOf::kJob);

// The same of a job: of all its rows, and where they hide it, of the newest ones, whose figures
// `window` are.
std::optional<std::string> WorseThanPriorText(const Figures& all, const Figures& window);

}  // namespace millrace
