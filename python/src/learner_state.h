// The bytes of a LearnerState, and what they may hold.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"
#include "messages/learner.pb.h"

namespace millrace {

// ResourceExhausted: it is too large for a message, 2 GiB.
StatusOr<std::string> EncodeLearner(const LearnerState& state);
// InvalidArgument: these bytes are no learner, were damaged, or are of a newer version.
StatusOr<LearnerState> DecodeLearner(std::string_view bytes);

// What the arrays of a state must fit.
struct LearnerShape {
  size_t numeric_columns = 0;
  size_t classes = 0;  // 0: a regression
  size_t parameters = 0;
  size_t block = 1;      // floats of a block of parameters
  size_t row_width = 0;  // of an embedding row; 0: there are none
};
// InvalidArgument, with what does not fit or is no number.
Status CheckLearner(const LearnerState& state, const LearnerShape& shape);

}  // namespace millrace
