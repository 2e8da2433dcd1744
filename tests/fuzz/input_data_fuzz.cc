// Hostile rows in `input-data`: a worker takes each or makes a dead letter of it, and sends nothing
// that a shard refuses.
#include "tests/fuzz/fuzz_job.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz::ByteSource bytes(data, size);
  millrace::fuzz::FuzzJob job(bytes, millrace::fuzz::Hostile::kRows);
  job.Run();
  job.CheckFolds();
  job.CheckWeights();
  job.CheckNothingRefused();
  return 0;
}
