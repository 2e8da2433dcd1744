// Who hosts which logical workers: evenly, moved as little as can be.
#include "processors/worker_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

using Hosts = std::vector<WorkerHost>;
using HostOf = std::map<uint32_t, uint32_t>;  // worker -> rank

Hosts Ready(std::vector<uint32_t> ranks) {
  Hosts hosts;
  for (const uint32_t rank : ranks) hosts.push_back({rank, kReadyTicks});
  return hosts;
}

HostOf HostsOf(const Hosts& hosts) {
  HostOf host_of;
  for (const WorkerHost& host : hosts) {
    EXPECT_TRUE(std::ranges::is_sorted(host.workers));
    for (const uint32_t worker : host.workers) {
      EXPECT_TRUE(host_of.emplace(worker, host.rank).second) << worker << " is hosted twice";
    }
  }
  return host_of;
}

// By definition: of counts that differ by one at most, those that keep the most where it is.
size_t MostKept(uint32_t workers, const Hosts& hosts) {
  const size_t least = workers / hosts.size();
  size_t kept = 0;
  size_t could_have_one_more = 0;
  for (const WorkerHost& host : hosts) {
    kept += std::min(host.workers.size(), least);
    if (host.workers.size() > least) ++could_have_one_more;
  }
  return kept + std::min(could_have_one_more, workers % hosts.size());
}

size_t Kept(const HostOf& before, const HostOf& after) {
  return static_cast<size_t>(std::ranges::count_if(
      before, [&](const auto& entry) { return after.at(entry.first) == entry.second; }));
}

TEST(WorkerHosts, HaveEachItsShareAtTheStart) {
  Hosts hosts = {{0, 0}, {1, 0}, {2, 0}};
  AssignWorkers(7, {}, 3, hosts);
  EXPECT_THAT(hosts[0].workers, ElementsAre(0, 3, 6));
  EXPECT_THAT(hosts[1].workers, ElementsAre(1, 4));
  EXPECT_THAT(hosts[2].workers, ElementsAre(2, 5));
}

TEST(WorkerHosts, ShareEvenlyThoseThatAreNotIdle) {
  Hosts hosts = Ready({0, 1, 2});
  hosts[0].workers = {0};
  hosts[1].workers = {1, 2};
  AssignWorkers(8, {3, 4, 5, 6, 7}, 3, hosts);
  EXPECT_THAT(hosts[0].workers, ElementsAre(0));
  EXPECT_THAT(hosts[1].workers, SizeIs(1));
  EXPECT_THAT(hosts[2].workers, ElementsAre(2));
}

TEST(WorkerHosts, LoseIdleWorkersAndThoseThatTheJobHasNoMore) {
  Hosts hosts = Ready({0, 1});
  hosts[0].workers = {0, 2, 5};
  hosts[1].workers = {1, 3, 4};
  AssignWorkers(4, {2}, 2, hosts);
  EXPECT_THAT(hosts[0].workers, ElementsAre(0));
  EXPECT_THAT(hosts[1].workers, ElementsAre(1, 3));
}

TEST(WorkerHosts, TakeOverWhatADeadOneHadEvenly) {
  Hosts hosts = Ready({0, 1, 2});
  AssignWorkers(12, {}, 3, hosts);
  const std::vector<uint32_t> of_the_first = hosts[0].workers;
  hosts.erase(hosts.begin() + 1);
  AssignWorkers(12, {}, 3, hosts);
  EXPECT_THAT(hosts[0].workers, SizeIs(6));
  EXPECT_THAT(hosts[1].workers, SizeIs(6));
  EXPECT_TRUE(std::ranges::includes(hosts[0].workers, of_the_first));
}

TEST(WorkerHosts, LeaveWorkersWhereTheyAreUntilOneThatComesIsReady) {
  Hosts hosts = Ready({0});
  AssignWorkers(4, {}, 2, hosts);
  hosts.push_back({1, kReadyTicks - 1});
  AssignWorkers(4, {}, 2, hosts);
  EXPECT_THAT(hosts[0].workers, SizeIs(4));
  EXPECT_THAT(hosts[1].workers, IsEmpty());
  hosts[1].ticks = kReadyTicks;
  AssignWorkers(4, {}, 2, hosts);
  EXPECT_THAT(hosts[0].workers, ElementsAre(0, 2));
  EXPECT_THAT(hosts[1].workers, ElementsAre(1, 3));
}

TEST(WorkerHosts, GiveWhatADeadOneHadToThoseThatAreReady) {
  Hosts hosts = Ready({0});
  AssignWorkers(4, {}, 3, hosts);
  hosts.push_back({1, kReadyTicks});
  AssignWorkers(4, {}, 3, hosts);
  hosts.erase(hosts.begin());
  hosts.push_back({2, 1});
  AssignWorkers(4, {}, 3, hosts);
  EXPECT_THAT(hosts[0].workers, SizeIs(4)) << "though another has fewer";
  EXPECT_THAT(hosts[1].workers, IsEmpty());
}

TEST(WorkerHosts, ShareWithOneThatHasComeAtTheSameTime) {
  Hosts hosts = {{0, 1}};
  AssignWorkers(4, {}, 2, hosts);
  hosts.push_back({1, 1});
  AssignWorkers(4, {}, 2, hosts);
  EXPECT_THAT(hosts[0].workers, ElementsAre(0, 2));
  EXPECT_THAT(hosts[1].workers, ElementsAre(1, 3));
}

TEST(WorkerHosts, TakeNothingFromOneThatIsNotReady) {
  Hosts hosts = {{0, kReadyTicks - 1}, {1, 0}};
  AssignWorkers(4, {}, 2, hosts);
  ASSERT_THAT(hosts[1].workers, SizeIs(2));
  hosts[0].ticks = kReadyTicks;
  AssignWorkers(4, {}, 2, hosts);
  EXPECT_THAT(hosts[1].workers, SizeIs(2));
}

TEST(WorkerHosts, HaveTheirOwnBackAfterADeath) {
  Hosts hosts = Ready({0, 1});
  AssignWorkers(6, {}, 2, hosts);
  const std::vector<uint32_t> had = hosts[0].workers;
  hosts[0].workers.clear();
  hosts[0].ticks = 0;
  AssignWorkers(6, {}, 2, hosts);
  ASSERT_THAT(hosts[1].workers, SizeIs(6));
  hosts[0].ticks = kReadyTicks;
  AssignWorkers(6, {}, 2, hosts);
  EXPECT_EQ(hosts[0].workers, had) << "its folder has their files";
}

TEST(WorkerHosts, GiveOneThatComesFirstWhatIsAtHomeThere) {
  Hosts hosts = Ready({0});
  AssignWorkers(9, {}, 3, hosts);
  hosts.push_back({2, kReadyTicks});
  AssignWorkers(9, {}, 3, hosts);
  EXPECT_THAT(hosts[1].workers, ElementsAre(1, 2, 5, 8));
}

TEST(WorkerHosts, AreAtMostAsManyAsThereAreWorkers) {
  Hosts hosts = Ready({0, 1, 2});
  AssignWorkers(1, {}, 3, hosts);
  EXPECT_THAT(HostsOf(hosts), SizeIs(1));
  hosts.clear();
  AssignWorkers(1, {}, 3, hosts);
  EXPECT_THAT(hosts, IsEmpty());
}

// Hosts come, become ready and go at random.
TEST(WorkerHosts, AreEvenAndMoveNothingThatNeedNotMove) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto processes = static_cast<uint32_t>(1 + random() % 6);
    const auto workers = static_cast<uint32_t>(random() % 20);
    Hosts hosts;
    for (int turn = 0; turn < 40; ++turn) {
      const auto rank = static_cast<uint32_t>(random() % processes);
      const auto place = std::ranges::lower_bound(hosts, rank, {}, &WorkerHost::rank);
      if (place == hosts.end() || place->rank != rank) {
        hosts.insert(place, {rank, random() % 2 == 0 ? 0 : kReadyTicks});
      } else if (random() % 2 == 0) {
        hosts.erase(place);
      }
      for (WorkerHost& host : hosts) host.ticks += random() % 2;
      const Hosts before = hosts;
      AssignWorkers(workers, {}, processes, hosts);
      const HostOf after = HostsOf(hosts);
      ASSERT_EQ(after.size(), hosts.empty() ? 0 : workers);
      if (hosts.empty()) continue;
      const bool all_ready = std::ranges::all_of(
          hosts, [](const WorkerHost& host) { return host.ticks >= kReadyTicks; });
      if (all_ready) {
        for (const WorkerHost& host : hosts) {
          ASSERT_GE(host.workers.size(), workers / hosts.size());
          ASSERT_LE(host.workers.size(), (workers + hosts.size() - 1) / hosts.size());
        }
        ASSERT_EQ(Kept(HostsOf(before), after), MostKept(workers, before));
      }
      const Hosts once = hosts;
      AssignWorkers(workers, {}, processes, hosts);
      for (size_t i = 0; i < hosts.size(); ++i) ASSERT_EQ(hosts[i].workers, once[i].workers);
    }
  }
}

}  // namespace
}  // namespace millrace
