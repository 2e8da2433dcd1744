// Arrays that numpy.load reads.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"

namespace millrace {

// Writes `values` (rows x columns, row-major) as a NumPy .npy file, version 1.0
// (numpy.lib.format). The file appears whole or not at all (written beside, then renamed).
Status WriteNpy(const std::string& path, std::span<const float> values, size_t rows,
                size_t columns);
Status WriteNpy(const std::string& path, std::span<const double> values, size_t rows,
                size_t columns);

}  // namespace millrace
