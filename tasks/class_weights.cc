#include "tasks/class_weights.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "base/did_you_mean.h"
#include "base/printable.h"

namespace millrace {
namespace {

// More would fill a screen.
constexpr size_t kMostListed = 20;

std::string Quoted(const std::string& name) { return "'" + Printable(name) + "'"; }

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostListed); ++i) {
    text += (i > 0 ? ", " : "") + Quoted(names[i]);
  }
  if (names.size() <= kMostListed) return text;
  return text + " and " + std::to_string(names.size() - kMostListed) + " more";
}

Status Unknown(const std::string& name, const std::vector<std::string>& classes) {
  std::string text = "--class-weight: the job has no class " + Quoted(name) + "; its classes are " +
                     Listed(classes);
  if (const auto near = NearestWord(name, classes)) text += "; did you mean " + Quoted(*near) + "?";
  return absl::InvalidArgumentError(text);
}

}  // namespace

bool BalancesClasses(const Training& training) {
  return training.class_weight_size() == 1 && training.class_weight(0) == kBalanced;
}

std::optional<std::pair<std::string, double>> ParseClassWeight(const std::string& entry) {
  const size_t divider = entry.rfind('=');
  if (divider == std::string::npos) return std::nullopt;
  double weight = 0;
  const char* const begin = entry.data() + divider + 1;
  const char* const end = entry.data() + entry.size();
  const auto [rest, error] = std::from_chars(begin, end, weight);
  if (error != std::errc() || rest != end) return std::nullopt;
  return std::pair(entry.substr(0, divider), weight);
}

StatusOr<std::vector<float>> ClassWeightsOf(const FeatureSpec& spec, const Training& training) {
  std::vector<float> weights;
  if (training.class_weight().empty() || BalancesClasses(training)) return weights;
  const std::vector<std::string> classes(spec.classes().begin(), spec.classes().end());
  std::vector<bool> named(classes.size());
  weights.assign(classes.size(), 1.0f);
  for (const std::string& entry : training.class_weight()) {
    const auto parsed = ParseClassWeight(entry);
    if (!parsed) {
      return absl::InvalidArgumentError("--class-weight: " + Quoted(entry) +
                                        " is not NAME=W, a class and a number");
    }
    const auto found = std::ranges::find(classes, parsed->first);
    if (found == classes.end()) return Unknown(parsed->first, classes);
    const auto at = static_cast<size_t>(found - classes.begin());
    if (named[at]) {
      return absl::InvalidArgumentError("--class-weight: class " + Quoted(parsed->first) +
                                        " is named twice");
    }
    named[at] = true;
    weights[at] = static_cast<float>(parsed->second);
  }
  if (std::ranges::all_of(weights, [](float weight) { return weight == 0; })) {
    return absl::InvalidArgumentError(
        "--class-weight: no class is left to learn from; give a number above 0 to one of them");
  }
  return weights;
}

}  // namespace millrace
