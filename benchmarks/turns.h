// Two sides of a comparison, measured in turns in one process, so that a busy machine disturbs
// both.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace millrace {

// Each side does `items` items per call and returns something of the result, a finite number, so
// that the compiler cannot leave the work out.
struct Comparison {
  std::string name;  // names and units are put into JSON as they are: no quotes, no backslashes
  std::string unit;
  double items = 0;
  std::function<double()> ours;
  std::function<double()> floor;
  // The sides are clients of servers in this process, whose processor time is meant: that of all
  // threads but this one.
  bool of_other_threads = false;
  // Threads wait for each other: the time that passes is meant, and not the processor's.
  bool by_the_wall = false;
};

// The program around a list of comparisons: parses the flags --json, --turns and --seconds, prints
// a line for each comparison, and writes the list of {name, ours, floor, ratio, unit}. Figures are
// items per second of processor time, of this thread or of the others (or of time that passes),
// higher is better; each is
// the median over the turns, and so is the ratio of ours to the floor of the same turn. Returns the
// exit code.
int RunComparisons(const std::string& description, int argc, char** argv,
                   const std::vector<Comparison>& comparisons);

}  // namespace millrace
