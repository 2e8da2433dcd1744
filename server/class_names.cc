#include "server/class_names.h"

#include "base/printable.h"
#include "base/utf8.h"
#include "features/quoted_value.h"
#include "topics/figures_codec.h"

namespace millrace {
namespace {

constexpr size_t kLongestName = 60;

std::string NameToShow(const std::string& name) {
  const bool is_plain = name.size() <= kLongestName && IsValidUtf8(name) && !HasControls(name);
  if (is_plain) return name;
  const std::string quoted = QuotedValue(name);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

std::vector<std::string> ClassNamesToShow(const FeatureSpec& spec) {
  std::vector<std::string> names;
  if (spec.regression() || static_cast<size_t>(spec.classes_size()) > kMostClassesTold) {
    return names;
  }
  for (const std::string& name : spec.classes()) names.push_back(NameToShow(name));
  return names;
}

}  // namespace millrace
