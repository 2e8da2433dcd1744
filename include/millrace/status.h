// How calls of the library fail: by a value, never by an exception or an abort.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace millrace::client {

enum class Code {
  kOk = 0,
  kInvalidArgument = 1,     // what was given cannot be right: a shape, a NaN, a setting
  kFailedPrecondition = 2,  // not now, or not in this job: other parameters, a put that is missing
  kDeadlineExceeded = 3,    // Settings::timeout_s is over; the call may be made again
  kCancelled = 4,           // Settings::stop
  kUnavailable = 5,         // no broker answers
  kPermissionDenied = 6,
  kDataLoss = 7,  // the topics or their records are gone, or another program has written there
  kInternal = 8,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// A value, or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  // REQUIRES ok(), as the others.
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace millrace::client
