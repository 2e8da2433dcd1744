#include "tests/fuzz/target.h"

// libFuzzer's entry point; replay_main.cc calls it, too.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::fuzz::ByteSource bytes(data, size);
  millrace::fuzz::FuzzOne(bytes);
  return 0;
}
