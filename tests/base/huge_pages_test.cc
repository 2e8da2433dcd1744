// Memory of huge pages.
#include "base/huge_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace millrace {
namespace {

// Whether the kernel was asked for huge pages for the mapping that holds the address ("hg" among
// its flags in smaps).
bool IsAskedFor(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> begin >> dash >> end && dash == '-') {
      const auto wanted = reinterpret_cast<uintptr_t>(address);
      inside = begin <= wanted && wanted < end;
    } else if (inside && line.starts_with("VmFlags:")) {
      return (line + " ").find(" hg ") != std::string::npos;
    }
  }
  return false;
}

TEST(HugePageAllocator, AsksForThemForLargeArraysAndNotForSmallOnes) {
  using Array = std::vector<uint64_t, HugePageAllocator<uint64_t>>;
  const Array large(HugePageAllocator<uint64_t>::kLeastBytes / sizeof(uint64_t), 7);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data()) % HugePageAllocator<uint64_t>::kPageBytes,
            0u);
  EXPECT_TRUE(IsAskedFor(large.data()));
  const Array small(1000, 7);
  EXPECT_FALSE(IsAskedFor(small.data()));
}

TEST(HugePageAllocator, KeepsWhatAnArrayHoldsWhileItGrows) {
  std::vector<uint32_t, HugePageAllocator<uint32_t>> array;
  for (uint32_t i = 0; i < 5'000'000; ++i) array.push_back(i);
  for (uint32_t i = 0; i < 5'000'000; ++i) ASSERT_EQ(array[i], i);
}

}  // namespace
}  // namespace millrace
