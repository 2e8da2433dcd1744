// The ordered all-reduce, against Gloo's bare exchange of the same bytes without a sum: alltoallv
// of slices, then allgatherv of one slice of each. The ranks are threads of this process, connected
// over the loopback; each has one contribution.
#include <gloo/allgatherv.h>
#include <gloo/alltoallv.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>

#include <barrier>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "benchmarks/turns.h"
#include "collective/ordered_all_reduce.h"

namespace millrace {
namespace {

constexpr size_t kLength = 1'000'000;
constexpr size_t kCallsAtOnce = 5;

using Numbers = std::vector<float>;

// Ranks that wait until they are to do something, all together.
class Ranks {
 public:
  // What a rank does in each call, once it is connected.
  using Act = std::function<void()>;

  Ranks(uint32_t count, const std::function<Act(uint32_t)>& connect) : turn_(count + 1) {
    for (uint32_t rank = 0; rank < count; ++rank) {
      threads_.emplace_back([this, connect, rank] {
        const Act act = connect(rank);
        for (turn_.arrive_and_wait(); !ends_; turn_.arrive_and_wait()) {
          for (size_t i = 0; i < kCallsAtOnce; ++i) act();
          turn_.arrive_and_wait();
        }
      });
    }
  }
  ~Ranks() {
    ends_ = true;
    turn_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  void Call() {
    turn_.arrive_and_wait();
    turn_.arrive_and_wait();
  }

 private:
  std::barrier<> turn_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

Numbers SomeNumbers(uint32_t rank) {
  Numbers numbers(kLength);
  for (size_t i = 0; i < kLength; ++i) numbers[i] = static_cast<float>((i + rank) % 1000);
  return numbers;
}

// All ranks of this process are gathered.
class Gatherings {
 public:
  explicit Gatherings(uint32_t count) : all_(count), values_(count) {}
  StatusOr<Gathered> Gather(uint32_t rank, const std::string& value) {
    values_[rank] = value;
    all_.arrive_and_wait();
    Gathered gathered;
    gathered.release = ++releases_[rank];
    for (uint32_t i = 0; i < values_.size(); ++i) {
      gathered.members.push_back({std::to_string(i), values_[i]});
    }
    all_.arrive_and_wait();
    return gathered;
  }

 private:
  std::barrier<> all_;
  std::vector<std::string> values_;
  std::vector<uint64_t> releases_ = std::vector<uint64_t>(values_.size(), 0);
};

std::shared_ptr<Ranks> Ours(uint32_t count) {
  auto gatherings = std::make_shared<Gatherings>(count);
  return std::make_shared<Ranks>(count, [count, gatherings](uint32_t rank) -> Ranks::Act {
    auto world = World::Join({}, std::to_string(rank), [&](const std::string& value) {
      return gatherings->Gather(rank, value);
    });
    MILLRACE_CHECK(world.ok());
    auto kept = std::make_shared<World>(*std::move(world));
    std::vector<uint32_t> owners(count);
    for (uint32_t worker = 0; worker < count; ++worker) owners[worker] = worker;
    auto reduce = std::make_shared<OrderedAllReduce>(*kept, owners, kLength);
    return [kept, reduce, numbers = SomeNumbers(rank), sum = Numbers(kLength)]() mutable {
      const Contribution own = {kept->position(), numbers};
      MILLRACE_CHECK(reduce->Run(std::span(&own, 1), sum).ok());
    };
  });
}

std::shared_ptr<Ranks> Bare(uint32_t count) {
  auto store = std::make_shared<gloo::rendezvous::HashStore>();
  return std::make_shared<Ranks>(count, [count, store](uint32_t rank) -> Ranks::Act {
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, count);
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
    context->connectFullMesh(*store, device);
    const size_t slice = kLength / count;
    return [context, count, slice, numbers = SomeNumbers(rank), slices = Numbers(kLength),
            gathered = Numbers(kLength)]() mutable {
      const std::vector<int64_t> sizes(count, static_cast<int64_t>(slice));
      gloo::AlltoallvOptions exchange(context);
      exchange.setInput(numbers.data(), sizes);
      exchange.setOutput(slices.data(), sizes);
      gloo::alltoallv(exchange);
      gloo::AllgathervOptions gather(context);
      gather.setInput(slices.data(), slice);
      gather.setOutput(gathered.data(), std::vector<size_t>(count, slice));
      gloo::allgatherv(gather);
    };
  });
}

std::vector<Comparison> AllComparisons() {
  std::vector<Comparison> all;
  for (const uint32_t count : {2u, 4u}) {
    const auto side = [](std::shared_ptr<Ranks> (*make)(uint32_t), uint32_t ranks) {
      // Connected when it is called for the first time, not for a list of names.
      auto made = std::make_shared<std::shared_ptr<Ranks>>();
      return [=] {
        if (*made == nullptr) *made = make(ranks);
        (*made)->Call();
        return 1.0;
      };
    };
    all.push_back({.name = "all-reduce of 1M floats, " + std::to_string(count) + " ranks",
                   .unit = "sums/s",
                   .items = kCallsAtOnce,
                   .ours = side(Ours, count),
                   .floor = side(Bare, count),
                   .by_the_wall = true});
  }
  return all;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::RunComparisons("The ordered all-reduce, against Gloo's bare exchange.", argc,
                                  argv, millrace::AllComparisons());
}
