// Hostile records in `gradients`: the fold takes or refuses each, and stays a fold.
#include "tests/fuzz/fuzz_job.h"
#include "tests/fuzz/target.h"

namespace millrace::fuzz {

void FuzzOne(ByteSource& bytes) {
  FuzzJob job(bytes, Hostile::kGradients);
  job.Run();
  job.CheckFolds();
  job.CheckWeights();
}

}  // namespace millrace::fuzz
