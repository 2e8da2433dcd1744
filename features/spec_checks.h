// Whether the features that a job names make sense.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "messages/features.pb.h"

namespace millrace {

// Checks all of a spec but its classes: a label, at least one feature, bucket counts above 0 that
// fit together into 32 bits, no column twice in the same role, no crosses of a column with itself,
// the label not among its own features, booleans that are numeric, and bin edges that are those of
// its bins, or none. The message names the field and the remedy.
Status ValidateColumns(const FeatureSpec& spec);

// Whether spec.numeric, .categorical, .bins or .ids name a further column of this one of
// spec.times.
bool UsesTimeParts(const FeatureSpec& spec, std::string_view column);

// Whether no cross is of a numeric column that is neither in bins nor a categorical or id column by
// itself: each of its numbers would be a category. (Not for jobs that are published: before there
// were bins such crosses were taken.)
Status CheckCrossesOfNumbers(const FeatureSpec& spec);

// Whether every name and class is valid UTF-8, as all text in messages must be. InvalidArgument,
// with the field and the name.
Status CheckNamesAreUtf8(const FeatureSpec& spec);
// The same of one name.
Status CheckNameIsUtf8(std::string_view field, std::string_view name);

// Whether there are hashed features of categories.
bool HasCategories(const FeatureSpec& spec);

// As messages name a field: with its flag, "text (--text)".
std::string FlaggedField(std::string_view field);

}  // namespace millrace
