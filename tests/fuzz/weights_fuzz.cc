// Hostile answers in `weights`: a worker takes or refuses each, and sends nothing that a shard
// refuses.
#include "tests/fuzz/fuzz_job.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz::ByteSource bytes(data, size);
  millrace::fuzz::FuzzJob job(bytes, millrace::fuzz::Hostile::kWeights);
  job.Run();
  job.CheckFolds();
  job.CheckWeights();
  job.CheckNothingRefused();
  return 0;
}
