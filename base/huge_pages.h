// Memory for large arrays that are read at random places.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace millrace {

// An allocator. An array of kLeastBytes and more begins at the boundary of a huge page, and the
// kernel is asked to use huge pages for it: with the usual 4 KiB, nearly each read at a random
// place of such an array waits for the page table as well as for the memory. (Where
// transparent_hugepage says `never`, nothing is different.) What is never written takes no memory,
// by the huge page.
template <typename T>
struct HugePageAllocator {
  using value_type = T;  // NOLINT(readability-identifier-naming)
  // Of x86-64; a multiple of others' base page.
  static constexpr size_t kPageBytes = size_t{2} << 20;
  static constexpr size_t kLeastBytes = 2 * kPageBytes;

  HugePageAllocator() = default;
  template <typename U>
  // NOLINTNEXTLINE(google-explicit-constructor): the standard wants it so
  HugePageAllocator(const HugePageAllocator<U>& /*other*/) {}

  T* allocate(size_t n) {
    const size_t bytes = n * sizeof(T);
    void* const array = ::operator new(bytes, Alignment(bytes));
    // An error changes nothing but the time.
    if (bytes >= kLeastBytes) madvise(array, bytes / kPageBytes * kPageBytes, MADV_HUGEPAGE);
    return static_cast<T*>(array);
  }
  void deallocate(T* array, size_t n) {
    const size_t bytes = n * sizeof(T);
    ::operator delete(array, Alignment(bytes));
  }

  template <typename U>
  bool operator==(const HugePageAllocator<U>& /*other*/) const {
    return true;
  }

 private:
  static std::align_val_t Alignment(size_t bytes) {
    constexpr size_t kLineBytes = 64;
    static_assert(alignof(T) <= kLineBytes);
    return std::align_val_t{bytes >= kLeastBytes ? kPageBytes : kLineBytes};
  }
};

}  // namespace millrace
