// From the label in a record to the class id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"

namespace millrace {

// Labels match a class by their exact bytes, or else as numbers ("1" is the class "1.0"); spaces
// and tabs around them do not count.
class LabelIndex {
 public:
  // No classes: Find() finds nothing.
  LabelIndex() = default;

  // The position of a name is its class id. Errors: fewer than two names, an empty one, two that
  // match one another.
  static StatusOr<LabelIndex> Create(std::span<const std::string> classes);

  // The class id of `label`, a trimmed label.
  std::optional<uint32_t> Find(std::string_view label) const;

  // Adds a class and gives it the next id; if one matches, that one's id is returned.
  uint32_t FindOrAdd(std::string_view label);

  size_t size() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, uint32_t> by_name_;
  absl::flat_hash_map<double, uint32_t> by_number_;
};

}  // namespace millrace
