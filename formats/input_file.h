// The bytes of a file, a pipe or standard input as they stand there, or of a file that grows.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"

namespace millrace {

// Not thread-safe.
class InputFile {
 public:
  struct Options {
    // Set to true by a signal handler or another thread, it ends a wait within 0.1 s: Read() then
    // returns kCancelled. Not owned; may be null.
    const std::atomic<bool>* stop = nullptr;
    // At the end of a regular file wait until it has grown.
    bool follow = false;
  };

  // Opens `path` ("-" is standard input). Every error is one line that names the file.
  static StatusOr<std::unique_ptr<InputFile>> Open(std::string path, const Options& options);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Reads bytes into `room` and returns their number; 0: the end, which with Options::follow never
  // comes. A pipe gives what it has. Errors: reading fails; kDataLoss: the file has become shorter,
  // or is followed and was overwritten, or another file has taken its name; kCancelled.
  StatusOr<size_t> Read(std::span<char> room);

  // Sets a function that Read() calls when there is nothing to be read, before it waits, 5 ms later
  // and every 0.1 s while it waits. Read() returns the function's error.
  void set_while_waiting(std::function<Status()> while_waiting) {
    while_waiting_ = std::move(while_waiting);
  }

  // The file's name in messages: its path, or "standard input".
  const std::string& name() const { return name_; }
  bool is_stdin() const { return is_stdin_; }
  uint64_t received_bytes() const { return received_bytes_; }
  // The size of a regular file: when it was opened, and of one that is followed, as it was seen
  // last.
  std::optional<uint64_t> total_bytes() const { return total_bytes_; }

 private:
  InputFile(std::string name, int fd, bool is_stdin, const Options& options);

  Status WaitReadable();
  Status WaitForMore();
  Status CheckStop() const;
  StatusOr<bool> HasGrown();
  void KeepNewest(std::span<const char> bytes);
  bool IsOverwritten() const;

  std::string name_;
  int fd_;
  bool is_stdin_;
  Options options_;
  bool pollable_ = false;  // a pipe, terminal or socket: reading it may wait
  std::optional<uint64_t> total_bytes_;
  uint64_t received_bytes_ = 0;
  std::string newest_;  // of a file that is followed the bytes that were read last
  std::function<Status()> while_waiting_;
};

}  // namespace millrace
