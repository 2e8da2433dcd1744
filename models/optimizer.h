// The server's optimizers: elementwise, so that each range of keys can be updated separately.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace millrace {

struct OptimizerOptions {
  // kSum: adds what it is given; no rate.
  enum class Kind { kSgd, kMomentum, kAdaGrad, kAdam, kFtrl, kSum };
  Kind kind = Kind::kAdaGrad;
  double learning_rate = 0.3;
  double decay = 0;  // step t uses learning_rate / (1 + decay * t)
  double momentum = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  // kFtrl only: beta, lambda_1 and lambda_2 of the paper.
  double ftrl_beta = 1;
  double l1 = 0;
  double l2 = 0;
};

// How the parameters that step together are divided, by their positions. FTRL asks for it.
struct ParameterParts {
  size_t penalised_end = SIZE_MAX;  // from here on (the bias) neither l1 nor l2 counts
  size_t linear_end = SIZE_MAX;     // from here on (factors, a network) nothing is linear
};

// SGD; momentum (Polyak 1964, heavy ball); AdaGrad (Duchi, Hazan, Singer 2011); Adam (Kingma, Ba
// 2015); FTRL-Proximal (McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013,
// algorithm 1, with learning_rate as alpha) for the linear part, beside AdaGrad for what is not
// linear, as Wide & Deep has it (Cheng et al. 2016). Stateless: the state lives in `slots`, slot by
// slot (slot s of parameter i is slots[s * parameters.size() + i]), initially zero. Immutable, may
// be shared by threads.
//
// FTRL's slot 0 is the sum of squares, which AdaGrad has, too; slot 1 is z, of the linear part
// only. Its parameters follow from the slots: they start at zero, and what else stood in the
// linear part would be forgotten by the first step.
//
// Parameters that miss steps (embedding rows) are as if they had stepped without a gradient: SGD,
// whose penalty is caught up; AdaGrad, but that the penalties missed do not add to its squares;
// FTRL, whose penalty is not a part of its steps. Momentum and Adam are lazy.
class Optimizer {
 public:
  static std::unique_ptr<Optimizer> Create(const OptimizerOptions& options);
  virtual ~Optimizer() = default;

  virtual size_t slot_count() const = 0;
  // How many of the slots' floats, from the first on, are used for `size` parameters: those after
  // need not be there.
  virtual size_t slot_floats(size_t size, const ParameterParts& /*parts*/) const {
    return slot_count() * size;
  }
  // Step number `step` (from 0). `gradient` is that of the mean loss, penalty included (but FTRL's,
  // which are its own); all spans cover the same parameters.
  virtual void Step(uint64_t step, std::span<const float> gradient, std::span<float> parameters,
                    std::span<float> slots, const ParameterParts& parts) const = 0;
  // All are penalised weights of a linear model.
  void Step(uint64_t step, std::span<const float> gradient, std::span<float> parameters,
            std::span<float> slots) const {
    Step(step, gradient, parameters, slots, {});
  }

  // ---- an L2 penalty on parameters that do not step each time: embedding rows ----

  // How far step number `step` shrinks a parameter without a gradient by the penalty l2 / 2 * w^2,
  // as a logarithm: what parameters miss is the sum of it. 0: the penalty acts in the steps that
  // they take, and only there. REQUIRES l2 * learning_rate < 1.
  virtual double Shrinkage(uint64_t /*step*/, double /*l2*/) const { return 0; }
  // Shrinks parameters by what they have missed, >= 0. `slots` as in Step.
  virtual void CatchUp(double /*missed*/, std::span<float> /*parameters*/,
                       std::span<const float> /*slots*/) const {}
};

}  // namespace millrace
