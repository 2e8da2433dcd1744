// What Training.class_weight says of a job's classes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "messages/features.pb.h"
#include "messages/training.pb.h"

namespace millrace {

// Its entry for weights by how frequent the classes are (ClassBalance).
inline constexpr char kBalanced[] = "balanced";

bool BalancesClasses(const Training& training);

// "NAME=W" as a name and a weight; the last '=' divides them, since a name may have one. Empty: it
// is no such entry.
std::optional<std::pair<std::string, double>> ParseClassWeight(const std::string& entry);

// The factor of each class, by class id; empty: all are 1, or they are balanced. InvalidArgument
// with the remedy: a class is named that the job does not have, or twice, or no class has a factor
// above 0.
StatusOr<std::vector<float>> ClassWeightsOf(const FeatureSpec& spec, const Training& training);

}  // namespace millrace
