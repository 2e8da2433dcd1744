// Hostile answers in `weights`: a worker takes or refuses each, and sends nothing that a shard
// refuses.
#include "tests/fuzz/fuzz_job.h"
#include "tests/fuzz/target.h"

namespace millrace::fuzz {

void FuzzOne(ByteSource& bytes) {
  FuzzJob job(bytes, Hostile::kWeights);
  job.Run();
  job.CheckFolds();
  job.CheckWeights();
  job.CheckNothingRefused();
}

}  // namespace millrace::fuzz
