// How old a model is.
#pragma once

#include <algorithm>

#include "base/clock.h"
#include "messages/exported_model.pb.h"

namespace millrace {

// Seconds since it was made, by this machine's clock; 0, if by that it is not made yet: the clock
// of the machine that made it was ahead. (Of a double: a description may say any time.)
inline double AgeSeconds(const ModelDescription& model) {
  return std::max(0.0,
                  (static_cast<double>(NowMs()) - static_cast<double>(model.created_ms())) / 1000);
}

}  // namespace millrace
