// What the program was at work on, for the line that a failed MILLRACE_CHECK prints.
#pragma once

#include <cstdint>
#include <cstdio>

namespace millrace {

// While it lives, a failed check of this thread names the record. Contexts nest; the innermost
// is printed. Takes nothing but a few stores, so that each record of a log may have one.
class CheckContext {
 public:
  // `topic` outlives it.
  CheckContext(const char* topic, int32_t partition, int64_t offset);
  ~CheckContext();
  CheckContext(const CheckContext&) = delete;
  CheckContext& operator=(const CheckContext&) = delete;

  // Prints what this thread is at work on, if anything.
  static void Print(std::FILE* file);

 private:
  const char* topic_;
  int32_t partition_;
  int64_t offset_;
  const CheckContext* outer_;
};

}  // namespace millrace
