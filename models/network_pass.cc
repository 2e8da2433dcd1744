#include "models/network_pass.h"

#include "base/check.h"

namespace millrace {
namespace {

using Eigen::Index;
using ConstFloatMap = Eigen::Map<const FloatTable>;
using FloatMap = Eigen::Map<FloatTable>;

constexpr Index kVector = 16;  // floats of the widest vectors
// Tiles of AddProduct have this many rows: as many, or 1, take the same time.
constexpr Index kTileRows = 4;
static_assert(NetworkPass::kBlockRows % kTileRows == 0);

constexpr Index RoundUp(Index count, Index to) { return (count + to - 1) / to * to; }

ConstFloatMap LayerWeights(std::span<const float> parameters, const Network::Layer& layer) {
  return {parameters.data() + layer.weights, static_cast<Index>(layer.inputs),
          static_cast<Index>(layer.units)};
}

}  // namespace

NetworkPass::NetworkPass(const Network& network, std::span<const float> parameters,
                         std::span<float> sums)
    : network_(network), parameters_(parameters), sums_(sums) {
  MILLRACE_CHECK(parameters.size() == network.parameter_count());
  MILLRACE_CHECK(sums.empty() || sums.size() == parameters.size());
  const auto add_units = [this](Index units) {
    units_.push_back(FloatTable::Zero(kBlockRows, units));
    if (sums_.empty()) return;
    slopes_.push_back(FloatTable::Zero(kBlockRows, RoundUp(units, kVector)));
  };
  add_units(static_cast<Index>(network.inputs()));
  for (const Network::Layer& layer : network.layers()) {
    const ConstFloatMap weights = LayerWeights(parameters, layer);
    add_units(weights.cols());
    if (sums.empty()) continue;
    transposed_.push_back(FloatTable::Zero(weights.cols(), RoundUp(weights.rows(), kVector)));
    transposed_.back().leftCols(weights.rows()) = weights.transpose();
  }
  outputs_ = FloatTable::Zero(kBlockRows, static_cast<Index>(network.outputs()));
}

std::span<float> NetworkPass::input(size_t row) {
  MILLRACE_CHECK(row < kBlockRows);
  return {units_.front().data() + row * network_.inputs(), network_.inputs()};
}

std::span<float> NetworkPass::added(size_t row) {
  MILLRACE_CHECK(row < kBlockRows);
  const size_t units = network_.layers().front().units;
  if (added_.size() == 0) added_ = FloatTable::Zero(kBlockRows, static_cast<Index>(units));
  return {added_.data() + row * units, units};
}

std::span<const float> NetworkPass::outputs(size_t row) const {
  MILLRACE_CHECK(row < rows_);
  return {outputs_.data() + row * network_.outputs(), network_.outputs()};
}

std::span<const float> NetworkPass::input_slope(size_t row) const {
  MILLRACE_CHECK(row < rows_ && !slopes_.empty());
  return {&slopes_.front()(static_cast<Index>(row), 0), network_.inputs()};
}

std::span<const float> NetworkPass::added_slope(size_t row) const {
  MILLRACE_CHECK(row < rows_ && !slopes_.empty());
  return {&slopes_[1](static_cast<Index>(row), 0), network_.layers().front().units};
}

void NetworkPass::Forward(size_t rows) {
  MILLRACE_CHECK(rows <= kBlockRows);
  rows_ = rows;
  // A short block takes some older rows along, whose outputs nobody reads.
  const Index computed = RoundUp(static_cast<Index>(rows), kTileRows);
  for (size_t l = 0; l < network_.layers().size(); ++l) {
    const Network::Layer& layer = network_.layers()[l];
    auto above = units_[l + 1].topRows(computed);
    above.rowwise() = ConstFloatMap(parameters_.data() + layer.biases, 1, above.cols()).row(0);
    if (l == 0 && added_.size() > 0) above += added_.topRows(computed);
    AddProduct(units_[l].topRows(computed), LayerWeights(parameters_, layer), above);
    above = above.unaryExpr([](float z) { return z < 0 ? 0.0f : z; });  // what is no number stays
  }
  const auto last = units_.back().topRows(computed);
  outputs_.setZero();
  AddProduct(
      last,
      ConstFloatMap(parameters_.data() + network_.output_weights(), last.cols(), outputs_.cols()),
      outputs_.topRows(computed));
}

void NetworkPass::Backward(std::span<const float> slopes) {
  MILLRACE_CHECK(slopes.size() == rows_ * network_.outputs() && !sums_.empty());
  const Index rows = static_cast<Index>(rows_);
  const Index last = units_.back().cols();
  const size_t output = network_.output_weights();
  const ConstFloatMap output_slopes(slopes.data(), rows, outputs_.cols());
  AddProduct(units_.back().topRows(rows).transpose(), output_slopes,
             FloatMap(sums_.data() + output, last, outputs_.cols()));
  const FloatTable output_weights =
      ConstFloatMap(parameters_.data() + output, last, outputs_.cols()).transpose();
  slopes_.back().setZero();
  AddProduct(output_slopes, output_weights, slopes_.back().topLeftCorner(rows, last));
  for (size_t l = network_.layers().size(); l-- > 0;) {
    const Network::Layer& layer = network_.layers()[l];
    const auto units = units_[l + 1].topRows(rows);
    auto above = slopes_[l + 1].topLeftCorner(rows, units.cols());
    above = above.binaryExpr(units, [](float slope, float unit) { return unit > 0 ? slope : 0; });
    const auto below = units_[l].topRows(rows);
    AddProduct(below.transpose(), above,
               FloatMap(sums_.data() + layer.weights, below.cols(), above.cols()));
    AddProduct(FloatTable::Ones(1, rows), above,
               FloatMap(sums_.data() + layer.biases, 1, above.cols()));
    slopes_[l].setZero();
    const Index computed = RoundUp(rows, kTileRows);
    AddProduct(slopes_[l + 1].topLeftCorner(computed, above.cols()), transposed_[l],
               slopes_[l].topRows(computed));
  }
}

}  // namespace millrace
