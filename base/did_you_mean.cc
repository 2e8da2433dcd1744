#include "base/did_you_mean.h"

#include <algorithm>
#include <numeric>

namespace millrace {
namespace {

constexpr size_t kLeastBeginning = 3;

// Letters to be inserted, deleted, replaced, or swapped with their neighbour.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> now(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        now[j] = std::min(now[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> NearestWord(const std::string& word,
                                       const std::vector<std::string>& known) {
  if (word.size() >= kLeastBeginning) {
    const auto begins = [&](const std::string& name) { return name.starts_with(word); };
    if (std::count_if(known.begin(), known.end(), begins) == 1) {
      return *std::find_if(known.begin(), known.end(), begins);
    }
  }
  std::optional<std::string> nearest;
  size_t least = 0;
  for (const std::string& name : known) {
    const size_t distance = EditDistance(word, name);
    if (distance > std::max(word.size(), name.size()) / 3) continue;
    if (nearest && distance >= least) continue;
    nearest = name;
    least = distance;
  }
  return nearest;
}

}  // namespace millrace
