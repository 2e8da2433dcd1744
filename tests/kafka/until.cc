#include "tests/kafka/until.h"

#include <thread>

namespace millrace {

bool Until(const std::function<bool()>& step, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!step()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::vector<std::string> Numbers(int begin, int end) {
  std::vector<std::string> numbers;
  for (int i = begin; i < end; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

}  // namespace millrace
