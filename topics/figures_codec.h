// Encodes and decodes figures of an evaluation and moments of columns.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "messages/records.pb.h"
#include "models/evaluation.h"
#include "models/moments.h"
#include "topics/topics.h"

namespace millrace {

EvaluationSums FromProto(const EvaluationSumsMessage& message);
void ToProto(const EvaluationSums& sums, EvaluationSumsMessage& message);
// Whether all its sums are numbers.
bool AreFinite(const EvaluationSumsMessage& message);
Moments FromProto(const MomentsMessage& message);
// Whether there are any: of numeric columns, classes or a target.
bool HasMoments(const MomentsMessage& message);
void ToProto(const Moments& moments, MomentsMessage& message);
// With what is told of each class, as far as the limits below allow.
void ToProto(const EvaluationFigures& figures, Figures& message);
// Those of sums of `classes` classes; 0: of a regression.
Figures ToFigures(const EvaluationSums& sums, size_t classes);

// Figures tell of so many reliability bins of equal width.
inline constexpr uint32_t kReliabilityBins = EvaluationSums::kCalibrationBins;

// A point of `metrics` is sent four times a second and never split. So its figures tell of each
// class if there are so many at most,
inline constexpr size_t kMostClassesTold = 1000;
// and have the confusion matrix if so many of its cells at most are not 0.
inline constexpr size_t kMostCellsTold = 2500;

// Changes of a job's number of workers.
inline constexpr uint64_t kMostResize = uint64_t{1} << 40;

// Checks of received messages; InvalidArgument with the reason.
Status CheckSums(const EvaluationSumsMessage& message, size_t classes);
// (Columns may be left out.) A job has `most_workers` at most.
Status CheckMoments(const MomentsMessage& message, size_t columns, size_t classes,
                    uint32_t most_workers = kMostWorkers);
// A change of a job's number of workers, number 0: there was none.
Status CheckResize(uint64_t number, uint32_t workers, uint32_t most_workers);
// Figures may be any numbers, but what they tell of bins and classes must be in bounds.
Status CheckFigures(const Figures& message);

}  // namespace millrace
