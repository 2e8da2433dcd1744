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

  size_t size() const { return parameters_.size(); }

  double Evaluate(std::span<const double> x, std::span<double> gradient) {
    std::transform(x.begin(), x.end(), parameters_.begin(),
                   [](double value) { return static_cast<float>(value); });
    gradient_.Clear();
    const BatchLoss loss = model_.Compute(rows_, scaler_, parameters_, &gradient_, {});
    const std::span<const float> sums = gradient_.values();
    for (size_t i = 0; i < size(); ++i) {
      gradient[i] = static_cast<double>(sums[i]) / loss.weight_sum;
    }
    double squares = 0;
    for (size_t i = 0; i < model_.penalised_end(); ++i) {
      gradient[i] += l2_ * x[i];
      squares += x[i] * x[i];
    }
    return loss.loss_sum / loss.weight_sum + l2_ / 2 * squares;
  }

 private:
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

void Descend(Objective& objective, uint32_t iterations, double rate, std::span<double> x) {
  std::vector<double> gradient(x.size());
  for (uint32_t i = 0; i < iterations; ++i) {
    objective.Evaluate(x, gradient);
    for (size_t j = 0; j < x.size(); ++j) x[j] -= rate * gradient[j];
  }
}

// Zeros if anything is not a finite float: a change is averaged into everybody's weights.
std::vector<float> Difference(std::span<const double> end, std::span<const float> start) {
  std::vector<float> change(start.size());
  for (size_t i = 0; i < start.size(); ++i) {
    const double difference = end[i] - static_cast<double>(start[i]);
    const bool fits = std::abs(difference) <= std::numeric_limits<float>::max();
    if (!fits) return std::vector<float>(start.size());
    change[i] = static_cast<float>(difference);
  }
  return change;
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
  Variables x(parameters);
  switch (options.kind) {
    case LocalSolverOptions::Kind::kLbfgs:
      Minimise(objective, options.iterations, x.values());
      break;
    case LocalSolverOptions::Kind::kSgd:
      Descend(objective, options.iterations, options.learning_rate, x.values());
      break;
  }
  result.change = Difference(x.values(), parameters);
  return result;
}

}  // namespace millrace
