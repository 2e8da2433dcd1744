// The loss of a regression that a job's settings name.
#pragma once

#include "messages/training.pb.h"
#include "models/row_loss.h"

namespace millrace {

inline ErrorLoss ToErrorLoss(Training::Loss loss) {
  switch (loss) {
    case Training::SQUARED:
      return ErrorLoss::kSquared;
    case Training::ABSOLUTE:
      return ErrorLoss::kAbsolute;
    case Training::HUBER:
      return ErrorLoss::kHuber;
  }
  return ErrorLoss::kSquared;
}

}  // namespace millrace
