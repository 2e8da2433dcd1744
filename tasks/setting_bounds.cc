#include "tasks/setting_bounds.h"

#include <sstream>

namespace millrace {

std::string BoundedSetting::Complaint() const {
  std::ostringstream text;
  text << value << " is not ";
  if (most == kBelowOne) {
    text << "at least " << least << " and below 1";
  } else if (most < kAny && least == kAboveZero) {
    text << "above 0 and at most " << most;
  } else if (most < kAny) {
    text << "between " << least << " and " << most;
  } else if (least == kAboveZero) {
    text << "a number above 0";
  } else {
    text << "a number of " << least << " or more";
  }
  return text.str();
}

std::optional<BoundedSetting> FirstOutOfBounds(const Training& training) {
  constexpr double kAboveZero = BoundedSetting::kAboveZero;
  constexpr double kBelowOne = BoundedSetting::kBelowOne;
  constexpr double kAny = BoundedSetting::kAny;
  const Training::Optimizer& optimizer = training.optimizer();
  const Training::Embedding& embedding = training.embedding();
  const BoundedSetting settings[] = {
      {"training.optimizer.learning_rate", optimizer.learning_rate(), kAboveZero, 1e18},
      {"training.optimizer.decay", optimizer.decay(), 0, kAny},
      {"training.optimizer.momentum", optimizer.momentum(), 0, kBelowOne},
      {"training.optimizer.beta1", optimizer.beta1(), 0, kBelowOne},
      {"training.optimizer.beta2", optimizer.beta2(), 0, kBelowOne},
      // The optimizers compute in floats, of which a smaller one would be 0.
      {"training.optimizer.epsilon", optimizer.epsilon(), 1e-30, 1e18},
      {"training.optimizer.ftrl_beta", optimizer.ftrl_beta(), 1e-6, 1e6},
      {"training.optimizer.l1", optimizer.l1(), 0, 1e18},
      {"training.update.local_learning_rate", training.update().local_learning_rate(), kAboveZero,
       1e18},
      {"training.l2", training.l2(), 0, kAny},
      {"training.compression.top_k", training.compression().top_k(), kAboveZero, 1},
      {"training.batch_wait_s", training.batch_wait_s(), 0, 86400},
      {"training.huber_limit", training.huber_limit(), 1e-3, 1e6},
      {"training.embedding.initial_limit", embedding.initial_limit(), 0, 1e6},
      {"training.embedding.l2", embedding.l2(), 0, 1e6},
      {"training.embedding.expire_after_s", embedding.expire_after_s(), 0, 1e10},
      {"training.embedding.admit_after", static_cast<double>(embedding.admit_after()), 1, kAny},
      {"training.buffer.coefficient", training.buffer().coefficient(), 0, kAny},
  };
  for (const BoundedSetting& setting : settings) {
    if (!setting.is_within()) return setting;
  }
  return std::nullopt;
}

}  // namespace millrace
