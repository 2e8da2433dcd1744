// A multilayer perceptron with one output, on blocks of rows. Internal to models/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/model.h"

namespace millrace {

// Hidden layers of ReLU units, h' = max(0, h W + b), then y = h w. Parameters: of each hidden layer
// its weights, a row of `units` for each of its inputs, then its biases; then w.
//
// The initial weights of a hidden layer are those of He et al. ("Delving deep into rectifiers",
// ICCV 2015, equation 10): variance 2 / inputs, evenly distributed within +-sqrt(6 / inputs). All
// else starts at zero, w too: the network's first output is 0, which does not disturb what is added
// to it.
class Network {
 public:
  // REQUIRES: no layer is empty, and there is one.
  Network(size_t inputs, const std::vector<size_t>& units);

  size_t inputs() const { return layers_.front().inputs; }
  size_t parameter_count() const { return output_ + layers_.back().units; }
  // The hidden layers' weights; the network's first parameter has the key `first`.
  std::vector<RandomInitRange> RandomInitRanges(uint64_t first) const;

 private:
  friend class NetworkPass;
  struct Layer {
    size_t inputs = 0;
    size_t units = 0;
    size_t weights = 0;  // where they begin
    size_t biases = 0;
  };

  std::vector<Layer> layers_;
  size_t output_ = 0;  // where w begins
};

// Takes a batch through a network and back, up to kBlockRows rows at a time: write the rows'
// inputs, Forward, read the outputs, Backward. Sums over rows are added up in the order of the
// rows, those over units in the order of the units, so that neither the processor nor how the batch
// is cut into blocks shows in a byte.
class NetworkPass {
 public:
  static constexpr size_t kBlockRows = 16;

  // `parameters` are the network's; `sums`, of the same size or empty, is what gradients are added
  // to by Finish. Both outlive the pass.
  NetworkPass(const Network& network, std::span<const float> parameters, std::span<float> sums);

  // Of a row of the block; its owner writes all of them.
  std::span<float> input(size_t row) {
    return {activations_.front().data() + row * strides_.front(), network_.inputs()};
  }
  void Forward(size_t rows);
  float output(size_t row) const { return outputs_[row]; }

  // Of the block of the last Forward: slopes are d loss / d output, one for each row.
  void Backward(std::span<const float> slopes);
  // d loss / d input, after Backward.
  std::span<const float> input_slope(size_t row) const {
    return {slopes_.front().data() + row * strides_.front(), network_.inputs()};
  }
  void Finish();

 private:
  // A matrix whose rows are padded with zeros to whole vectors.
  struct Padded {
    size_t rows = 0;
    size_t stride = 0;
    std::vector<float> values;
  };

  const Network& network_;
  std::span<const float> parameters_;
  std::span<float> sums_;
  // By layer, the input being the first: units in whole vectors, and block rows of them.
  std::vector<size_t> strides_;
  std::vector<std::vector<float>> activations_;
  std::vector<std::vector<float>> slopes_;
  // By hidden layer: weights with the biases as their last row, the weights' transpose, and the
  // sums of the gradient in the shape of the first.
  std::vector<Padded> weights_;
  std::vector<Padded> transposed_;
  std::vector<Padded> gradients_;
  std::vector<float> output_weights_;
  std::vector<float> output_gradient_;
  std::vector<float> outputs_;
};

}  // namespace millrace
