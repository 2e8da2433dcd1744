// Hostile rows in `input-data`: a worker takes each or makes a dead letter of it, and sends nothing
// that a shard refuses.
#include "tests/fuzz/fuzz_job.h"
#include "tests/fuzz/target.h"

namespace millrace::fuzz {

void FuzzOne(ByteSource& bytes) {
  FuzzJob job(bytes, Hostile::kRows);
  job.Run();
  job.CheckFolds();
  job.CheckWeights();
  job.CheckNothingRefused();
}

}  // namespace millrace::fuzz
