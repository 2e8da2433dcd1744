// A batch's way through a network and back, by blocks of rows. Internal to models/: it includes
// Eigen, which no other folder may reach.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/network.h"
#include "models/ordered_product.h"

namespace millrace {

// For each block of up to kBlockRows rows: write the rows' inputs, Forward, read the outputs,
// Backward. Sums over rows are added up in the order of the rows, those over units in the order of
// the units, so that neither the processor nor how a batch is divided into blocks shows in a byte.
// Not thread-safe.
class NetworkPass {
 public:
  static constexpr size_t kBlockRows = 16;

  // `parameters` are the network's; `sums`, of the same size, is what Backward adds the gradient
  // to, or empty: there is no Backward. The network and both spans outlive the pass.
  NetworkPass(const Network& network, std::span<const float> parameters, std::span<float> sums);

  // The inputs of row `row` of the block; the caller writes all of them. REQUIRES row < kBlockRows
  std::span<float> input(size_t row);
  // What is added to the first hidden layer's units beside their biases and inputs: sums of sparse
  // inputs. The caller writes all of them, for each row, or asks for none of them.
  std::span<float> added(size_t row);
  // Computes the outputs of the first `rows` rows. REQUIRES rows <= kBlockRows
  void Forward(size_t rows);
  // REQUIRES row < the rows of the last Forward
  std::span<const float> outputs(size_t row) const;
  float output(size_t row) const { return outputs(row)[0]; }

  // Adds the gradient of the block of the last Forward; slopes are d loss / d output, all of a row
  // after those of the row before. REQUIRES a Forward of as many rows, and `sums`
  void Backward(std::span<const float> slopes);
  // d loss / d input of a row, after Backward. REQUIRES row < its rows
  std::span<const float> input_slope(size_t row) const;
  // The same of what was added to the first hidden layer.
  std::span<const float> added_slope(size_t row) const;

 private:
  const Network& network_;
  const std::span<const float> parameters_;
  const std::span<float> sums_;
  size_t rows_ = 0;  // of the last Forward
  // By layer, the inputs being the first: a row of units for each row of the block.
  std::vector<FloatTable> units_;
  FloatTable added_;  // empty: nothing is added
  FloatTable outputs_;
  // Only with `sums`. d loss / d unit, and each hidden layer's weights, transposed. Both have
  // columns of zeros at the end, up to a whole number of vectors.
  std::vector<FloatTable> slopes_;
  std::vector<FloatTable> transposed_;
};

}  // namespace millrace
