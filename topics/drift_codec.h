// Encodes and decodes what a DriftDetector holds, and says it in words.
#pragma once

#include <string>

#include "messages/records.pb.h"
#include "models/drift_detector.h"

namespace millrace {

void ToProto(const DriftDetector::Drift& drift, Drift& message);
void ToProto(const DriftDetector& detector, ShardState::DriftWatch& message);
DriftDetector::State FromProto(const ShardState::DriftWatch& message);

// "the stream has changed: the loss rose from 0.1000 to 0.2500 at row 20,096 (noticed at row
// 20,480)", and of how many times it is the last. REQUIRES: count > 0.
std::string DriftText(const Drift& drift, bool is_regression);

}  // namespace millrace
