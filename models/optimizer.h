// How the server steps: elementwise, so that any range of keys can step alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace millrace {

struct OptimizerOptions {
  enum class Kind { kSgd, kMomentum, kAdaGrad, kAdam };
  Kind kind = Kind::kAdaGrad;
  double learning_rate = 0.3;
  double decay = 0;  // step t uses learning_rate / (1 + decay * t)
  double momentum = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

// SGD; momentum (Polyak 1964, heavy ball); AdaGrad (Duchi, Hazan, Singer 2011); Adam (Kingma, Ba
// 2015). Stateless: the state lives in `slots`, slot by slot (slot s of parameter i is
// slots[s * parameters.size() + i]), zero at birth. Immutable, may be shared by threads.
class Optimizer {
 public:
  static std::unique_ptr<Optimizer> Create(const OptimizerOptions& options);
  virtual ~Optimizer() = default;

  virtual size_t slot_count() const = 0;
  // Step number `step` (from 0). `gradient` is that of the mean loss, penalty included; all spans
  // cover the same parameters.
  virtual void Step(uint64_t step, std::span<const float> gradient, std::span<float> parameters,
                    std::span<float> slots) const = 0;
};

}  // namespace millrace
