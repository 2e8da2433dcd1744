// What each fuzz target implements; target.cc calls it.
#pragma once

#include "tests/fuzz/byte_source.h"

namespace millrace::fuzz {

// Gives one input to the code under test, and aborts when it does what it must not.
void FuzzOne(ByteSource& bytes);

}  // namespace millrace::fuzz
