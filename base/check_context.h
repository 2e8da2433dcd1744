// The record that is being processed, for the line that a failed MILLRACE_CHECK prints.
#pragma once

#include <cstdint>
#include <cstdio>

namespace millrace {

// While it lives, a failed check of this thread names the record. Contexts nest; the innermost is
// printed. It costs only a few stores, so that each record of a log can have one.
class CheckContext {
 public:
  // `topic` outlives it.
  CheckContext(const char* topic, int32_t partition, int64_t offset);
  ~CheckContext();
  CheckContext(const CheckContext&) = delete;
  CheckContext& operator=(const CheckContext&) = delete;

  // Prints the record that this thread is processing, if any.
  static void Print(std::FILE* file);

 private:
  const char* topic_;
  int32_t partition_;
  int64_t offset_;
  const CheckContext* outer_;
};

}  // namespace millrace
