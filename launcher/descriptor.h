// An open file that is closed with its owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace millrace {

// Not thread-safe.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}  // -1: none
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~Descriptor() { Close(); }

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }
  void Close() {
    if (number_ >= 0) (void)close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

}  // namespace millrace
