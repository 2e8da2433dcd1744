// Why records of a topic are no rows: which reason is the most frequent. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace millrace {

// Not thread-safe.
class UnusableReasons {
 public:
  // `reason`: of a record that is no row, such as 'column "km": "far" is not a number'. Those that
  // are alike up to their second quoted text, or to a number, count as one.
  void Add(std::string_view reason);

  uint64_t count() const { return count_; }

  // What to say of the first `records` records of a topic, and what is to be checked: when none is
  // a row, or more than one in ten is not; empty when nothing is to be said.
  std::string Text(std::string_view topic, uint64_t records) const;

 private:
  struct Kind {
    uint64_t count = 0;
    std::string example;  // the last one
  };

  uint64_t count_ = 0;
  std::map<std::string, Kind, std::less<>> kinds_;  // by what they begin with; a few
};

}  // namespace millrace
