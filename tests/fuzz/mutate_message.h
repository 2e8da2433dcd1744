// Hostile messages out of honest ones.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "tests/fuzz/byte_source.h"

namespace millrace::fuzz {

// Changes some fields of the message, or of messages in it, to values that a careless reader would
// trip over: largest and smallest numbers, NaN, elements too many or too few. By reflection, so
// that a new field is mutated without a line here.
void Mutate(google::protobuf::Message& message, ByteSource& bytes);

// The same of the bytes: some are changed, cut off or repeated.
void Mutate(std::string& text, ByteSource& bytes);

// The body of a frame (topics/frame.h) as the message, mutated, in a frame again; else its bytes
// mutated. What is no whole frame is mutated as bytes.
template <typename Message>
void MutateFrame(std::string& value, ByteSource& bytes) {
  Message message;
  if (value.size() > 2 && value[1] == 0 && !bytes.Chance(32) &&
      message.ParseFromArray(value.data() + 2, static_cast<int>(value.size() - 2))) {
    Mutate(message, bytes);
    value.resize(2);
    message.AppendToString(&value);
    return;
  }
  Mutate(value, bytes);
}

}  // namespace millrace::fuzz
