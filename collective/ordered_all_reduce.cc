#include "collective/ordered_all_reduce.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "collective/mesh.h"

namespace millrace {
namespace {

// So many numbers of the sum stay in the fastest cache while all workers' are added to them.
constexpr size_t kAtOnce = 2'048;

void AddInOrder(std::span<const float* const> workers, size_t size, float* sum) {
  for (size_t begin = 0; begin < size; begin += kAtOnce) {
    const size_t end = std::min(begin + kAtOnce, size);
    std::fill(sum + begin, sum + end, 0.0f);
    for (const float* const worker : workers) {
      for (size_t i = begin; i < end; ++i) sum[i] += worker[i];
    }
  }
}

}  // namespace

OrderedAllReduce::OrderedAllReduce(World& world, std::vector<uint32_t> owners, size_t length)
    : world_(world), owners_(std::move(owners)), length_(length), shape_(Mix64(length)) {
  size_t others = 0;
  for (const uint32_t owner : owners_) {
    MILLRACE_CHECK(owner < world.size());
    shape_ = Mix64(shape_ ^ owner);
    others += owner == world.position() ? 0 : 1;
  }
  received_.resize(others * SliceOf(world.position()).size);
}

OrderedAllReduce::Slice OrderedAllReduce::SliceOf(uint32_t member) const {
  const size_t begin = length_ * member / world_.size();
  return {begin, length_ * (member + 1) / world_.size() - begin};
}

Status OrderedAllReduce::Run(std::span<const Contribution> own, std::span<float> sum) {
  MILLRACE_CHECK(sum.size() == length_);
  const uint32_t self = world_.position();
  const Slice slice = SliceOf(self);
  std::vector<const float*> workers(owners_.size(), nullptr);
  for (const Contribution& each : own) {
    const bool may_be = each.worker < owners_.size() && owners_[each.worker] == self &&
                        workers[each.worker] == nullptr &&  // each once
                        each.values.size() == length_;
    MILLRACE_CHECK(may_be);
    workers[each.worker] = each.values.data() + slice.begin;
  }
  MILLRACE_CHECK(std::ranges::count(owners_, self) == std::ssize(own));
  // One for the slice of each worker, and one for that of the sum.
  const uint64_t tag = world_.NextTag(shape_);
  const auto tag_of_worker = [&](size_t worker) { return Mix64(tag ^ (worker + 1)); };

  Transfers slices(world_.mesh());
  float* place = received_.data();
  for (size_t worker = 0; worker < owners_.size(); ++worker) {
    if (owners_[worker] == self) continue;
    slices.Receive(owners_[worker], tag_of_worker(worker),
                   std::as_writable_bytes(std::span(place, slice.size)));
    workers[worker] = place;
    place += slice.size;
  }
  // Receipts are begun before others send, who would otherwise have to be told later.
  Transfers sums(world_.mesh());
  for (uint32_t member = 0; member < world_.size(); ++member) {
    if (member == self) continue;
    const Slice theirs = SliceOf(member);
    sums.Receive(member, tag, std::as_writable_bytes(sum.subspan(theirs.begin, theirs.size)));
    for (const Contribution& each : own) {
      slices.Send(member, tag_of_worker(each.worker),
                  std::as_bytes(each.values.subspan(theirs.begin, theirs.size)));
    }
  }
  MILLRACE_RETURN_IF_ERROR(slices.WaitReceived());
  AddInOrder(workers, slice.size, sum.data() + slice.begin);
  for (uint32_t member = 0; member < world_.size(); ++member) {
    if (member == self) continue;
    sums.Send(member, tag, std::as_bytes(sum.subspan(slice.begin, slice.size)));
  }
  MILLRACE_RETURN_IF_ERROR(slices.WaitSent());
  MILLRACE_RETURN_IF_ERROR(sums.WaitReceived());
  return sums.WaitSent();
}

}  // namespace millrace
