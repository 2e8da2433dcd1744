// Of all sizes.
#pragma once

#include <cmath>
#include <random>

namespace millrace {

inline double RandomDouble(std::mt19937_64& random) {
  return std::ldexp(static_cast<double>(random()) - 9e18, -static_cast<int>(random() % 120));
}

}  // namespace millrace
