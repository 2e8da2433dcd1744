// Processes that train together while one of them is killed in the middle of a round.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "collective/ordered_all_reduce.h"
#include "collective/state_sync.h"
#include "tests/collective/gatherer.h"

namespace millrace {
namespace {

constexpr uint32_t kWorkers = 6;
constexpr size_t kLength = 100'000;
constexpr uint64_t kRounds = 12;
constexpr uint64_t kRoundOfDeath = 5;
constexpr int kVictim = 2;

using Numbers = std::vector<float>;

// What a worker adds in a round to weights that it has.
Numbers ContributionOf(uint32_t worker, uint64_t round, const Numbers& weights) {
  Numbers numbers(kLength);
  for (size_t i = 0; i < kLength; ++i) {
    const float noise = EvenlyFrom(Mix64(Mix64(round * kWorkers + worker) ^ i));
    numbers[i] = 0.1f * (noise - weights[i]);
  }
  return numbers;
}

Numbers TrainedByOne() {
  Numbers weights(kLength, 0.0f);
  for (uint64_t round = 0; round < kRounds; ++round) {
    Numbers sum(kLength, 0.0f);
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      const Numbers numbers = ContributionOf(worker, round, weights);
      for (size_t i = 0; i < kLength; ++i) sum[i] += numbers[i];
    }
    for (size_t i = 0; i < kLength; ++i) weights[i] += sum[i];
  }
  return weights;
}

class Trainer {
 public:
  Trainer(int fd, std::string instance, std::chrono::microseconds until_death)
      : fd_(fd), instance_(std::move(instance)), until_death_(until_death) {}

  // "3 ..": how many worlds have failed, and the bytes of the weights.
  std::string Run() {
    while (clock_ < kRounds) {
      StatusOr<World> world = World::Join(
          {}, instance_, [this](const std::string& value) { return GatherBy(fd_, value); });
      Status status = world.status();
      if (status.ok()) status = TrainIn(*world);
      if (status.ok()) break;
      if (!absl::IsUnavailable(status)) return std::string(status.message());
      ++failed_;
    }
    return std::to_string(failed_) + " " +
           std::string(reinterpret_cast<const char*>(weights_.data()), kLength * sizeof(float));
  }

 private:
  Status TrainIn(World& world) {
    MILLRACE_RETURN_IF_ERROR(
        TakeFurthest(world, clock_, std::as_writable_bytes(std::span(weights_))));
    std::vector<uint32_t> owners(kWorkers);
    for (uint32_t worker = 0; worker < kWorkers; ++worker) owners[worker] = worker % world.size();
    OrderedAllReduce reduce(world, owners, kLength);
    Numbers sum(kLength);
    for (; clock_ < kRounds; ++clock_) {
      std::vector<Numbers> numbers;
      std::vector<uint32_t> workers;
      for (uint32_t worker = 0; worker < kWorkers; ++worker) {
        if (owners[worker] != world.position()) continue;
        numbers.push_back(ContributionOf(worker, clock_, weights_));
        workers.push_back(worker);
      }
      std::vector<Contribution> own;
      for (size_t i = 0; i < numbers.size(); ++i) own.push_back({workers[i], numbers[i]});
      const std::vector<Numbers> before = numbers;
      std::thread death;
      if (until_death_.count() >= 0 && clock_ == kRoundOfDeath) {
        death = std::thread([this] {
          std::this_thread::sleep_for(until_death_);
          (void)kill(getpid(), SIGKILL);
        });
      }
      const Status status = reduce.Run(own, sum);
      if (death.joinable()) death.join();
      if (before != numbers) return absl::InternalError("the input has changed");
      MILLRACE_RETURN_IF_ERROR(status);
      for (size_t i = 0; i < kLength; ++i) weights_[i] += sum[i];
    }
    return absl::OkStatus();
  }

  const int fd_;
  const std::string instance_;
  const std::chrono::microseconds until_death_;  // negative: it does not die
  uint64_t clock_ = 0;
  Numbers weights_ = Numbers(kLength, 0.0f);
  int failed_ = 0;
};

// Starts a process that is "m<i>".
pid_t Start(int i, const std::vector<int>& ends, std::chrono::microseconds until_death) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  for (size_t other = 0; other < ends.size(); ++other) {
    if (static_cast<int>(other) != i) close(ends[other]);
  }
  const int fd = ends[static_cast<size_t>(i)];
  SayLastWords(fd, Trainer(fd, "m" + std::to_string(i), until_death).Run());
  _exit(0);
}

TEST(Survivors, OfAKilledMemberRepeatTheRoundAndEndInTheSameBytes) {
  const Numbers expected = TrainedByOne();
  const std::string bytes(reinterpret_cast<const char*>(expected.data()), kLength * sizeof(float));
  for (uint32_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    constexpr int kMembers = 4;
    Gatherer gatherer;
    std::vector<int> ends;
    for (int i = 0; i < kMembers; ++i) ends.push_back(gatherer.Add("m" + std::to_string(i)));
    std::mt19937 random(seed);
    std::vector<pid_t> pids;
    for (int i = 0; i < kMembers; ++i) {
      const std::chrono::microseconds until_death(i == kVictim ? int(random() % 3000) : -1);
      pids.push_back(Start(i, ends, until_death));
    }
    for (const int end : ends) close(end);
    gatherer.Serve();
    for (int i = 0; i < kMembers; ++i) {
      int status = 0;
      ASSERT_EQ(waitpid(pids[static_cast<size_t>(i)], &status, 0), pids[static_cast<size_t>(i)]);
      const std::optional<std::string> words = gatherer.LastWords("m" + std::to_string(i));
      if (i == kVictim) {
        EXPECT_TRUE(WIFSIGNALED(status));
        EXPECT_FALSE(words);
        continue;
      }
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
      ASSERT_TRUE(words);
      const size_t space = words->find(' ');
      EXPECT_NE(words->substr(0, space), "0") << "it has not noticed the death";
      EXPECT_TRUE(words->substr(space + 1) == bytes)
          << (words->size() < bytes.size() ? *words : "other weights");
    }
  }
}

}  // namespace
}  // namespace millrace
