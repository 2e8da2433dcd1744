#include "models/network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "models/lanes.h"

namespace millrace {
namespace {

constexpr size_t kUnitLanes = 16;
// Rows, or inputs, whose sums grow together: each vector that is read serves all of them.
constexpr size_t kAtOnce = 4;
static_assert(NetworkPass::kBlockRows % kAtOnce == 0);

using UnitLanes = Lanes<kUnitLanes>;

constexpr size_t WholeVectors(size_t units) {
  return (units + kUnitLanes - 1) / kUnitLanes * kUnitLanes;
}

[[gnu::always_inline]] inline void Store(float* to, const UnitLanes& lanes) {
  StoreFirst<kUnitLanes, kUnitLanes>(to, lanes);
}

// to = from * matrix + bias, for kAtOnce rows each; `bias` may be null.
void Multiply(const float* from, size_t from_stride, size_t rows, const float* matrix,
              size_t matrix_rows, size_t stride, const float* bias, float* to) {
  for (size_t r = 0; r < rows; r += kAtOnce) {
    const float* const x = from + r * from_stride;
    for (size_t unit = 0; unit < stride; unit += kUnitLanes) {
      const UnitLanes start = bias != nullptr ? Load<kUnitLanes>(bias + unit) : UnitLanes{};
      UnitLanes sum[kAtOnce] = {start, start, start, start};
      for (size_t i = 0; i < matrix_rows; ++i) {
        const UnitLanes weight = Load<kUnitLanes>(matrix + i * stride + unit);
        for (size_t j = 0; j < kAtOnce; ++j) sum[j] += x[j * from_stride + i] * weight;
      }
      for (size_t j = 0; j < kAtOnce; ++j) Store(to + (r + j) * stride + unit, sum[j]);
    }
  }
}

// sums[i] += from[row][i] * slope[row], row by row, for kInputs inputs.
template <size_t kInputs>
[[gnu::always_inline]] inline void AddOuter(const float* from, size_t from_stride,
                                            const float* slopes, size_t stride, size_t rows,
                                            float* sums) {
  for (size_t unit = 0; unit < stride; unit += kUnitLanes) {
    UnitLanes sum[kInputs];
    for (size_t i = 0; i < kInputs; ++i) sum[i] = Load<kUnitLanes>(sums + i * stride + unit);
    for (size_t r = 0; r < rows; ++r) {
      const UnitLanes slope = Load<kUnitLanes>(slopes + r * stride + unit);
      for (size_t i = 0; i < kInputs; ++i) sum[i] += from[r * from_stride + i] * slope;
    }
    for (size_t i = 0; i < kInputs; ++i) Store(sums + i * stride + unit, sum[i]);
  }
}

// The lanes' sum; always in this order.
float SumOf(const UnitLanes& lanes) {
  Lanes<8> low;
  Lanes<8> high;
  SplitInHalves<kUnitLanes>(lanes, low, high, std::make_index_sequence<8>());
  const Lanes<8> sum = low + high;
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

}  // namespace

Network::Network(size_t inputs, const std::vector<size_t>& units) {
  MILLRACE_CHECK(inputs > 0 && !units.empty());
  for (const size_t count : units) {
    MILLRACE_CHECK(count > 0);
    const size_t biases = output_ + inputs * count;
    layers_.push_back({inputs, count, output_, biases});
    output_ = biases + count;
    inputs = count;
  }
}

std::vector<RandomInitRange> Network::RandomInitRanges(uint64_t first) const {
  std::vector<RandomInitRange> ranges;
  for (const Layer& layer : layers_) {
    const double limit = std::sqrt(6.0 / static_cast<double>(layer.inputs));
    ranges.push_back({first + layer.weights, first + layer.biases, static_cast<float>(limit)});
  }
  return ranges;
}

NetworkPass::NetworkPass(const Network& network, std::span<const float> parameters,
                         std::span<float> sums)
    : network_(network), parameters_(parameters), sums_(sums), outputs_(kBlockRows) {
  MILLRACE_CHECK(parameters.size() == network.parameter_count());
  MILLRACE_CHECK(sums.empty() || sums.size() == parameters.size());
  strides_.push_back(WholeVectors(network.inputs()));
  for (const Network::Layer& layer : network.layers_) {
    const size_t stride = WholeVectors(layer.units);
    const auto padded = [&](std::span<const float> values) {
      Padded matrix{layer.inputs + 1, stride, std::vector<float>((layer.inputs + 1) * stride)};
      for (size_t i = 0; i <= layer.inputs; ++i) {  // the biases follow the weights
        std::copy_n(values.data() + layer.weights + i * layer.units, layer.units,
                    matrix.values.data() + i * stride);
      }
      return matrix;
    };
    weights_.push_back(padded(parameters));
    if (!sums.empty()) {
      gradients_.push_back(padded(sums));
      Padded transposed{layer.units, strides_.back(), {}};
      transposed.values.resize(layer.units * transposed.stride);
      for (size_t i = 0; i < layer.inputs; ++i) {
        for (size_t unit = 0; unit < layer.units; ++unit) {
          transposed.values[unit * transposed.stride + i] =
              weights_.back().values[i * stride + unit];
        }
      }
      transposed_.push_back(std::move(transposed));
    }
    strides_.push_back(stride);
  }
  for (const size_t stride : strides_) {
    activations_.emplace_back(kBlockRows * stride);
    slopes_.emplace_back(sums.empty() ? 0 : kBlockRows * stride);
  }
  const auto last = [&](std::span<const float> values) {
    std::vector<float> padded(strides_.back());
    std::ranges::copy(values.subspan(network.output_), padded.begin());
    return padded;
  };
  output_weights_ = last(parameters);
  if (!sums.empty()) output_gradient_ = last(sums);
}

void NetworkPass::Forward(size_t rows) {
  MILLRACE_CHECK(rows <= kBlockRows);
  for (size_t l = 0; l < weights_.size(); ++l) {
    const Padded& matrix = weights_[l];
    std::vector<float>& to = activations_[l + 1];
    // (A short block takes some older rows along, whose outputs nobody reads.)
    Multiply(activations_[l].data(), strides_[l], rows, matrix.values.data(), matrix.rows - 1,
             matrix.stride, matrix.values.data() + (matrix.rows - 1) * matrix.stride, to.data());
    for (size_t i = 0; i < rows * matrix.stride; i += kUnitLanes) {
      Store(to.data() + i, Max<kUnitLanes>(Load<kUnitLanes>(to.data() + i), UnitLanes{}));
    }
  }
  const size_t stride = strides_.back();
  for (size_t r = 0; r < rows; ++r) {
    const float* const units = activations_.back().data() + r * stride;
    UnitLanes sum = {};
    for (size_t unit = 0; unit < stride; unit += kUnitLanes) {
      sum += Load<kUnitLanes>(units + unit) * Load<kUnitLanes>(output_weights_.data() + unit);
    }
    outputs_[r] = SumOf(sum);
  }
}

void NetworkPass::Backward(std::span<const float> slopes) {
  const size_t rows = slopes.size();
  MILLRACE_CHECK(rows <= kBlockRows && !sums_.empty());
  const size_t last = strides_.back();
  AddOuter<1>(slopes.data(), 1, activations_.back().data(), last, rows, output_gradient_.data());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t unit = 0; unit < last; unit += kUnitLanes) {
      Store(slopes_.back().data() + r * last + unit,
            slopes[r] * Load<kUnitLanes>(output_weights_.data() + unit));
    }
  }
  for (size_t l = weights_.size(); l-- > 0;) {
    const size_t stride = strides_[l + 1];
    float* const above = slopes_[l + 1].data();
    const float* const units = activations_[l + 1].data();
    for (size_t i = 0; i < rows * stride; i += kUnitLanes) {
      const UnitLanes slope = Load<kUnitLanes>(above + i);
      Store(above + i, Load<kUnitLanes>(units + i) > 0.0f ? slope : UnitLanes{});
    }
    const float* const below = activations_[l].data();
    float* const sums = gradients_[l].values.data();
    const size_t inputs = gradients_[l].rows - 1;
    size_t i = 0;
    for (; i + kAtOnce <= inputs; i += kAtOnce) {
      AddOuter<kAtOnce>(below + i, strides_[l], above, stride, rows, sums + i * stride);
    }
    for (; i < inputs; ++i) {
      AddOuter<1>(below + i, strides_[l], above, stride, rows, sums + i * stride);
    }
    constexpr float kOne[kBlockRows] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    AddOuter<1>(kOne, 1, above, stride, rows, sums + inputs * stride);
    Multiply(above, stride, rows, transposed_[l].values.data(), transposed_[l].rows,
             transposed_[l].stride, nullptr, slopes_[l].data());
  }
}

void NetworkPass::Finish() {
  if (sums_.empty()) return;
  for (size_t l = 0; l < gradients_.size(); ++l) {
    const Network::Layer& layer = network_.layers_[l];
    for (size_t i = 0; i <= layer.inputs; ++i) {
      std::copy_n(gradients_[l].values.data() + i * gradients_[l].stride, layer.units,
                  sums_.data() + layer.weights + i * layer.units);
    }
  }
  std::copy_n(output_gradient_.data(), sums_.size() - network_.output_,
              sums_.data() + network_.output_);
}

}  // namespace millrace
