#include "topics/parameter_layout.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "base/printable.h"
#include "base/utf8.h"
#include "models/parameter_handler.h"
#include "topics/table_rows.h"

namespace millrace {
namespace {

constexpr int kMostNamed = 1'000'000;
constexpr double kMostMultiplier = 1e6;
constexpr size_t kMostDimensions = 32;
constexpr double kMostScale = 1e6;

// 0: none, or more than there may be.
uint64_t SizeOf(const NamedParameter& parameter) {
  if (static_cast<size_t>(parameter.shape_size()) > kMostDimensions) return 0;
  uint64_t size = 1;
  for (const uint64_t extent : parameter.shape()) {
    if (extent == 0 || extent > kMostParameters / size) return 0;
    size *= extent;
  }
  return size;
}

bool IsMultiplier(double value) { return value >= 0 && value <= kMostMultiplier; }

// What a table has otherwise than a parameter.
Status CheckTable(const NamedParameter& table) {
  const auto wrong = [&table](const std::string& what) {
    return absl::InvalidArgumentError("the table " + table.name() + ": " + what);
  };
  if (table.shape_size() != 1 || table.shape(0) < 1 || table.shape(0) > kMostRowWidth) {
    return wrong("give its rows a width of 1 to " + std::to_string(kMostRowWidth));
  }
  const double scale = table.table().scale();
  if (!(scale >= 0 && scale <= kMostScale)) {
    return wrong("give its initial values a scale from 0 to 1000000");
  }
  if (table.handler() == "ftrl" && scale > 0) {
    return wrong(
        "the handler ftrl makes values of its sums, which begin at zero: give its rows the "
        "scale 0");
  }
  if (!MayBeAdded(table.handler())) return absl::OkStatus();
  return wrong("its rows have no handlers of one's own, as " + table.handler() +
               " is: give sgd, momentum, adagrad, adam, ftrl, assign or add");
}

std::string NameOf(const NamedParameter& parameter) {
  return (parameter.has_table() ? "the table " : "the parameter ") + Printable(parameter.name());
}

Status CheckParameter(const NamedParameter& parameter) {
  const auto wrong = [&parameter](const std::string& what) {
    return absl::InvalidArgumentError(NameOf(parameter) + ": " + what);
  };
  if (parameter.name().empty()) return absl::InvalidArgumentError("a parameter without a name");
  if (!IsValidUtf8(parameter.name()) || HasControls(parameter.name())) {
    return wrong("give it a name in UTF-8 without control characters");
  }
  if (parameter.has_table()) MILLRACE_RETURN_IF_ERROR(CheckTable(parameter));
  if (SizeOf(parameter) == 0) {
    return wrong("give each extent of its shape 1 or more, " + std::to_string(kMostDimensions) +
                 " extents at most and " + std::to_string(kMostParameters) + " values at most");
  }
  if (!IsParameterHandler(parameter.handler()) && !MayBeAdded(parameter.handler())) {
    return wrong("there is no handler " + parameter.handler() + "; give one of " +
                 ParameterHandlerNames() +
                 ", or one of your own server program, whose name has a dot in it");
  }
  if (!IsMultiplier(parameter.learning_rate_multiplier()) ||
      !IsMultiplier(parameter.decay_multiplier())) {
    return wrong("give multipliers from 0 to 1000000");
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::vector<KeyRange>> LayOutParameters(const JobFeatures& features) {
  if (features.parameters_size() > kMostNamed) {
    return absl::InvalidArgumentError(std::to_string(features.parameters_size()) +
                                      " parameters; give " + std::to_string(kMostNamed) +
                                      " at most");
  }
  std::vector<KeyRange> keys;
  std::set<std::string> names;
  if (TablesOf(features).size() > kMostTables) {
    return absl::InvalidArgumentError(std::to_string(TablesOf(features).size()) + " tables; give " +
                                      std::to_string(kMostTables) + " at most");
  }
  uint64_t end = 0;
  for (const NamedParameter& parameter : features.parameters()) {
    MILLRACE_RETURN_IF_ERROR(CheckParameter(parameter));
    if (!names.insert(parameter.name()).second) {
      return absl::InvalidArgumentError(NameOf(parameter) +
                                        " is there twice: give each another name");
    }
    const uint64_t size = parameter.has_table() ? 0 : SizeOf(parameter);
    if (size > kMostParameters - end) {
      return absl::InvalidArgumentError("the parameters have more than " +
                                        std::to_string(kMostParameters) + " values together");
    }
    keys.push_back({end, end + size});
    end += size;
  }
  return keys;
}

KeyRange PartOf(KeyRange parameter, KeyRange shard) {
  const uint64_t begin = std::max(parameter.begin, shard.begin);
  const uint64_t end = std::min(parameter.end, shard.end);
  return begin < end ? KeyRange{begin, end} : KeyRange{};
}

Status CheckParameterParts(const google::protobuf::RepeatedPtrField<ParameterPart>& parts,
                           const std::vector<KeyRange>& parts_of_shard) {
  int64_t last = -1;
  for (const ParameterPart& part : parts) {
    const uint32_t number = part.parameter();
    const std::string name = "parameter " + std::to_string(number);
    if (number <= last) return absl::InvalidArgumentError(name + " out of order");
    last = number;
    const size_t size = number < parts_of_shard.size() ? parts_of_shard[number].size() : 0;
    if (size == 0) return absl::InvalidArgumentError(name + ", of which this shard has no keys");
    if (static_cast<size_t>(part.value_size()) != size) {
      return absl::InvalidArgumentError(std::to_string(part.value_size()) + " values of " + name +
                                        ", of which this shard has " + std::to_string(size));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
