// The shape of a multilayer perceptron. Internal to models/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/model.h"

namespace millrace {

// Hidden layers of ReLU units, h' = max(0, h W + b), then y = h w. Parameters: of each hidden layer
// its weights, a row of `units` for each of its inputs, then its biases; then w, a row of `outputs`
// for each unit of the last layer. NetworkPass computes it (models/network_pass.h).
//
// The initial weights of a hidden layer are those of He et al. ("Delving deep into rectifiers",
// ICCV 2015, equation 10): variance 2 / inputs, evenly distributed within +-sqrt(6 / inputs). All
// else starts at zero, w too: the network's first output is 0, which does not disturb what is added
// to it.
class Network {
 public:
  struct Layer {  // a hidden one
    size_t inputs = 0;
    size_t units = 0;
    size_t weights = 0;  // where they begin among the parameters
    size_t biases = 0;
  };

  // `inputs` may be 0 where the first layer gets something else added (NetworkPass::added).
  // REQUIRES: there are outputs and a hidden layer, and no hidden layer is empty.
  Network(size_t inputs, const std::vector<size_t>& units, size_t outputs = 1);

  size_t inputs() const { return layers_.front().inputs; }
  size_t outputs() const { return outputs_; }
  size_t parameter_count() const { return output_weights_ + layers_.back().units * outputs_; }
  const std::vector<Layer>& layers() const { return layers_; }
  size_t output_weights() const { return output_weights_; }  // where w begins
  // The hidden layers' weights; the network's first parameter has the key `first`.
  std::vector<RandomInitRange> RandomInitRanges(uint64_t first) const;

 private:
  std::vector<Layer> layers_;
  size_t output_weights_ = 0;
  size_t outputs_;
};

}  // namespace millrace
