// The evaluation log: how every figure developed, as CSV. Pure.
#pragma once

#include <string>

#include "metrics/learning_curve.h"

namespace millrace {

// The first six columns are those of the programs' own evaluation logs (fMeasure is the weighted
// F1); then: kind (progressive, window, holdout, tail), rows (of the stream so far), rows_trained,
// and the other figures. A cell is empty when the job has no such figure: auc when there are not
// two classes, of a regression all but rmse and what is beside it. docs/figures.md explains each
// column.
std::string EvaluationCsvHeader();
std::string EvaluationCsvLine(const CurvePoint& point);  // both with an end of line

}  // namespace millrace
