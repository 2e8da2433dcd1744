// Hostile records in `gradients`: the fold takes or refuses each, and stays a fold.
#include "tests/fuzz/fuzz_job.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz::ByteSource bytes(data, size);
  millrace::fuzz::FuzzJob job(bytes, millrace::fuzz::Hostile::kGradients);
  job.Run();
  job.CheckFolds();
  job.CheckWeights();
  return 0;
}
