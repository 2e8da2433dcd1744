// Functions of libm whose last bit differs between processors (glibc chooses the code when it
// starts), where parameters depend on them: sums and products only, hence the same bytes anywhere.
// Internal to models/.
#pragma once

#include <array>
#include <cstdint>

namespace millrace {

// The natural logarithm, to 12 digits: more than a float has. Of infinity and NaN they are
// returned. REQUIRES: not x <= 0.
double NaturalLog(double x);

// Of eight at once, in vector instructions: the same bytes. REQUIRES: each is positive, finite and
// not subnormal.
using EightDoubles = std::array<double, 8>;
EightDoubles NaturalLogs(const EightDoubles& x);

// base^exponent, by squaring.
double Power(double base, uint64_t exponent);

}  // namespace millrace
