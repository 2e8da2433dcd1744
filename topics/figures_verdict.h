// Whether a model has learnt anything: the one rule that every log and display goes by.
#pragma once

#include <optional>
#include <string>

#include "messages/records.pb.h"

namespace millrace {

// Worse than who knows nothing but the classes' frequencies (log loss), or the mean of the targets
// (root mean squared error), of the same rows. What noise may cost is not held against it.
bool IsWorseThanPrior(const Figures& figures);

// What to say of such a model, and what to do about it: two sentences, the first without its
// capital, the last without its full stop. Empty when it is not worse, or has been tested on fewer
// than 1000 rows, whose figures are a matter of chance.
std::optional<std::string> WorseThanPriorText(const Figures& figures);

}  // namespace millrace
