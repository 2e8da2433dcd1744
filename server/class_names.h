// The names of a job's classes, fit for a display.
#pragma once

#include <string>
#include <vector>

#include "messages/features.pb.h"

namespace millrace {

// By class id: the name as it is if it is short, valid UTF-8 without control characters, else as
// errors quote it (QuotedValue), without the quotes. Empty for a regression, and for more classes
// than the points of `metrics` tell of (kMostClassesTold).
std::vector<std::string> ClassNamesToShow(const FeatureSpec& spec);

}  // namespace millrace
