// Encodes and decodes figures of an evaluation and moments of columns.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "messages/records.pb.h"
#include "models/evaluation.h"
#include "models/moments.h"

namespace millrace {

EvaluationSums FromProto(const EvaluationSumsMessage& message);
void ToProto(const EvaluationSums& sums, EvaluationSumsMessage& message);
Moments FromProto(const MomentsMessage& message);
void ToProto(const Moments& moments, MomentsMessage& message);
void ToProto(const EvaluationFigures& figures, Figures& message);

// Checks of received messages; InvalidArgument with the reason.
Status CheckSums(const EvaluationSumsMessage& message, size_t classes);
Status CheckMoments(const MomentsMessage& message, size_t columns);

}  // namespace millrace
