#include "models/class_balance.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace millrace {

ClassBalance::ClassBalance(const Moments& before, size_t classes)
    : before_(before.class_rows),
      added_(classes),
      total_(std::accumulate(before_.begin(), before_.end(), uint64_t{0})) {
  MILLRACE_CHECK(classes >= 2 && before_.size() <= classes);
  before_.resize(classes);
}

float ClassBalance::WeightOf(uint32_t label) const {
  const auto classes = static_cast<double>(before_.size());
  const double all = static_cast<double>(total_) + classes;
  const double of_class = static_cast<double>(before_.at(label) + added_.at(label)) + 1;
  return static_cast<float>(std::min(all / (classes * of_class), kMost));
}

std::vector<float> ClassBalance::Weights() const {
  std::vector<float> weights;
  for (uint32_t label = 0; label < before_.size(); ++label) weights.push_back(WeightOf(label));
  return weights;
}

}  // namespace millrace
