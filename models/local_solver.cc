#include "models/local_solver.h"

#include <lbfgs.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/check.h"

namespace millrace {
namespace {

// The batch's objective and its gradient. The model computes in floats, the solvers in doubles.
class Objective {
 public:
  Objective(const Model& model, RowsView rows, const Scaler& scaler, double l2)
      : model_(model),
        rows_(rows),
        scaler_(scaler),
        l2_(l2),
        parameters_(model.parameter_count()),
        gradient_(model.parameter_count(), model.block_size()) {}

  double Evaluate(std::span<const double> x, std::span<double> gradient) {
    const BatchLoss loss = SumGradient(x);
    const std::span<const float> sums = gradient_.values();
    for (size_t i = 0; i < x.size(); ++i) {
      gradient[i] = static_cast<double>(sums[i]) / loss.weight_sum;
    }
    double squares = 0;
    for (size_t i = 0; i < model_.penalised_end(); ++i) {
      gradient[i] += l2_ * x[i];
      squares += x[i] * x[i];
    }
    return loss.loss_sum / loss.weight_sum + l2_ / 2 * squares;
  }

  // A step of gradient descent, which needs no value, in one pass.
  void Descend(double rate, std::span<double> x) {
    const double weight = SumGradient(x).weight_sum;
    const double l2 = l2_;  // which might lie in x, for all that the compiler knows
    const std::span<const float> sums = gradient_.values();
    const size_t penalised_end = model_.penalised_end();
    for (size_t i = 0; i < penalised_end; ++i) {
      x[i] -= rate * (static_cast<double>(sums[i]) / weight + l2 * x[i]);
    }
    for (size_t i = penalised_end; i < x.size(); ++i) {
      x[i] -= rate * (static_cast<double>(sums[i]) / weight);
    }
  }

 private:
  // Into gradient_, over the rows. Returns their loss.
  BatchLoss SumGradient(std::span<const double> x) {
    std::transform(x.begin(), x.end(), parameters_.begin(),
                   [](double value) { return static_cast<float>(value); });
    gradient_.Clear();
    return model_.Compute(rows_, scaler_, parameters_, &gradient_, {});
  }

  const Model& model_;
  const RowsView rows_;
  const Scaler& scaler_;
  const double l2_;
  std::vector<float> parameters_;
  GradientSum gradient_;
};

// liblbfgs wants its variables aligned and rounded up to whole vectors, with zeros after them.
class Variables {
 public:
  explicit Variables(std::span<const float> start)
      : size_(start.size()), data_(lbfgs_malloc(static_cast<int>(start.size()))) {
    MILLRACE_CHECK(data_ != nullptr);
    std::copy(start.begin(), start.end(), data_.get());
  }
  std::span<double> values() { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(lbfgsfloatval_t* data) const { lbfgs_free(data); }
  };
  size_t size_;
  std::unique_ptr<lbfgsfloatval_t[], Free> data_;
};

lbfgsfloatval_t EvaluateForLbfgs(void* objective, const lbfgsfloatval_t* x,
                                 lbfgsfloatval_t* gradient, int size, lbfgsfloatval_t /*step*/) {
  const size_t count = static_cast<size_t>(size);
  return static_cast<Objective*>(objective)->Evaluate({x, count}, {gradient, count});
}

void Minimise(Objective& objective, uint32_t iterations, std::span<double> x) {
  lbfgs_parameter_t settings;
  lbfgs_parameter_init(&settings);
  settings.max_iterations = static_cast<int>(iterations);
  // Iterations are what is asked for; this only ends at a minimum as sharp as floats can tell.
  settings.epsilon = 1e-9;
  const int status = lbfgs(static_cast<int>(x.size()), x.data(), nullptr, EvaluateForLbfgs, nullptr,
                           &objective, &settings);
  // All other codes are ordinary ends: out of iterations, at the minimum, or no better point on
  // the line, and then x is the last good one.
  MILLRACE_CHECK(status != LBFGSERR_OUTOFMEMORY);
}

// Zeros if anything is not a finite float: a change is averaged into everybody's weights.
void WriteDifference(std::span<const double> end, std::span<const float> start,
                     std::span<float> change) {
  int beyond = 0;  // no branch in the loop, so that it takes many values at once
  for (size_t i = 0; i < change.size(); ++i) {
    const double difference = end[i] - static_cast<double>(start[i]);
    beyond |= static_cast<int>(!(std::abs(difference) <= std::numeric_limits<float>::max()));
    change[i] = static_cast<float>(difference);
  }
  if (beyond != 0) std::ranges::fill(change, 0.0f);
}

}  // namespace

LocalChange SolveLocally(const Model& model, RowsView rows, const Scaler& scaler,
                         std::span<const float> parameters, const LocalSolverOptions& options) {
  LocalChange result;
  result.change.resize(parameters.size());
  result.start = model.Compute(rows, scaler, parameters, nullptr, {});
  const bool is_solvable = std::isfinite(result.start.loss_sum) && result.start.weight_sum > 0;
  if (!is_solvable || options.iterations == 0) return result;

  Objective objective(model, rows, scaler, options.l2);
  switch (options.kind) {
    case LocalSolverOptions::Kind::kLbfgs: {
      Variables x(parameters);
      Minimise(objective, options.iterations, x.values());
      WriteDifference(x.values(), parameters, result.change);
      break;
    }
    case LocalSolverOptions::Kind::kSgd: {
      std::vector<double> x(parameters.begin(), parameters.end());
      for (uint32_t i = 0; i < options.iterations; ++i) {
        objective.Descend(options.learning_rate, x);
      }
      WriteDifference(x, parameters, result.change);
      break;
    }
  }
  return result;
}

}  // namespace millrace
