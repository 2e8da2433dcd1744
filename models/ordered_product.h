// A matrix product with the same bytes on every processor. Internal to models/.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <type_traits>

#include "base/check.h"

namespace millrace {

using FloatTable = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace ordered_product {

// Computes tiles of kRows x kColumns sums from row `row` on, as long as they fit, in the columns
// from `column` on. Returns the first row that is left. A tile's sums stay in registers: each
// vector of `b` that is read serves all of its rows.
template <int kRows, int kColumns, class A, class B, class Sums>
inline Eigen::Index AddTiles(const A& a, const B& b, Eigen::Index row, Eigen::Index column,
                             Sums& sums) {
  constexpr int kOrder = kColumns == 1 ? Eigen::ColMajor : Eigen::RowMajor;  // Eigen's rule
  for (; row + kRows <= sums.rows(); row += kRows) {
    Eigen::Array<float, kRows, kColumns, kOrder> tile =
        sums.template block<kRows, kColumns>(row, column);
    for (Eigen::Index k = 0; k < b.rows(); ++k) {
      const auto from = b.template block<1, kColumns>(k, column);
      for (int i = 0; i < kRows; ++i) tile.row(i) += a(row + i, k) * from;
    }
    sums.template block<kRows, kColumns>(row, column) = tile;
  }
  return row;
}

// Computes panels of kColumns columns from `column` on, as long as they fit. Returns the first
// column that is left.
template <int kRows, int kColumns, class A, class B, class Sums>
inline Eigen::Index AddPanels(const A& a, const B& b, Eigen::Index column, Sums& sums) {
  for (; column + kColumns <= sums.cols(); column += kColumns) {
    Eigen::Index row = AddTiles<kRows, kColumns>(a, b, 0, column, sums);
    if constexpr (kRows > 4) row = AddTiles<4, kColumns>(a, b, row, column, sums);
    AddTiles<1, kColumns>(a, b, row, column, sums);
  }
  return column;
}

// A strip of rows, all columns: the widest panels first.
template <class A, class B, class Sums>
inline void AddStrip(const A& a, const B& b, Sums sums) {
  Eigen::Index column = AddPanels<4, 16>(a, b, 0, sums);
  column = AddPanels<8, 8>(a, b, column, sums);
  column = AddPanels<8, 4>(a, b, column, sums);
  column = AddPanels<8, 2>(a, b, column, sums);
  AddPanels<8, 1>(a, b, column, sums);
}

}  // namespace ordered_product

// sums += a * b: to sums(i, j) are added a(i, 0) b(0, j), a(i, 1) b(1, j), and so on in this order,
// each product and each sum rounded by itself. `b` and `sums` are row-major and do not overlap.
//
// Eigen's own products have no such order. It follows the size of the processor's vectors and of
// its caches, and where the processor can, products are fused with sums by intrinsics, which
// -ffp-contract=off does not reach. Expressions that are computed element by element are safe, and
// this is made of those; what must not be used is a reduction (sum, dot, norm) over a vector.
template <class A, class B, class Sums>
void AddProduct(const A& a, const B& b, Sums&& sums) {
  static_assert(B::IsRowMajor && std::remove_reference_t<Sums>::IsRowMajor);
  MILLRACE_CHECK(a.rows() == sums.rows() && a.cols() == b.rows() && b.cols() == sums.cols());
  constexpr Eigen::Index kStrip = 16;  // rows of sums; more would leave the cache
  for (Eigen::Index row = 0; row < sums.rows(); row += kStrip) {
    const Eigen::Index rows = std::min(kStrip, sums.rows() - row);
    ordered_product::AddStrip(a.middleRows(row, rows), b, sums.middleRows(row, rows));
  }
}

}  // namespace millrace
