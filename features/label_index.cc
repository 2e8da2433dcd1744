#include "features/label_index.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "features/number.h"
#include "features/quoted_value.h"

namespace millrace {
namespace {

// From 2^53 on different integers are the same double: there only equal bytes make equal labels.
constexpr double kEndOfExact = 9007199254740992.0;

std::optional<double> AsNumber(std::string_view label) {
  double value;
  if (ParseNumber(label, &value) != NumberKind::kNumber || std::abs(value) >= kEndOfExact) {
    return std::nullopt;
  }
  return value == 0 ? 0.0 : value;  // -0 is 0
}

}  // namespace

StatusOr<LabelIndex> LabelIndex::Create(std::span<const std::string> classes) {
  if (classes.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat("at least 2 classes are needed, there ",
                                                   classes.size() == 1 ? "is " : "are ",
                                                   classes.size()));
  }
  LabelIndex index;
  for (const std::string& name : classes) {
    const std::string_view label = TrimSpaces(name);
    if (label.empty()) return absl::InvalidArgumentError("a class has an empty name");
    const size_t size = index.size();
    if (const uint32_t id = index.FindOrAdd(label); id < size) {
      return absl::InvalidArgumentError(absl::StrCat("classes ", QuotedValue(index.names_[id]),
                                                     " and ", QuotedValue(label), " are the same"));
    }
  }
  return index;
}

std::optional<uint32_t> LabelIndex::Find(std::string_view label) const {
  if (const auto it = by_name_.find(absl::string_view(label.data(), label.size()));
      it != by_name_.end()) {
    return it->second;
  }
  if (by_number_.empty()) return std::nullopt;
  const std::optional<double> number = AsNumber(label);
  if (!number) return std::nullopt;
  const auto it = by_number_.find(*number);
  if (it == by_number_.end()) return std::nullopt;
  return it->second;
}

uint32_t LabelIndex::FindOrAdd(std::string_view label) {
  if (const std::optional<uint32_t> id = Find(label)) return *id;
  const uint32_t id = static_cast<uint32_t>(names_.size());
  names_.emplace_back(label);
  by_name_.emplace(label, id);
  if (const std::optional<double> number = AsNumber(label)) by_number_.emplace(*number, id);
  return id;
}

}  // namespace millrace
