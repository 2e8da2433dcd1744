// Which programs can work on a job together.
#pragma once

#include <cstdint>

namespace millrace {

// The protocol of this version of Millrace: what its programs tell each other, and what they do
// about it. A job keeps that of the program that began it, and a program of another one refuses it
// (job/begun_by.h). Raised by a change after which programs of before would take part in a job of
// now and do something else than it wants; a field that they may pass over, or that stands in the
// job's own settings, where one that a program does not know is an error, raises nothing.
//
// 2: batches that grow end at other rows (base/batch_growth.h).
// 3: an online learner has the sums of NewtonRacer and one more loss; workers damp their changes in
// another way.
// 4: workers damp less what only one row of a batch has.
// 5: an online learner has seven rates, and the slowest ones begin at the class frequencies; the
// range of a regression's targets travels with the moments.
inline constexpr uint32_t kProtocol = 5;

}  // namespace millrace
