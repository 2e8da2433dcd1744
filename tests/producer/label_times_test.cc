#include "producer/label_times.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <random>

namespace millrace {
namespace {

using Node = LabelTimes::Node;

TEST(LabelTimes, FindTheFirstThatWasWrittenInASpanWithBothItsEnds) {
  std::deque<Node> nodes = {{30, 1}, {10, 2}, {20, 3}, {20, 4}};
  LabelTimes times;
  EXPECT_TRUE(times.empty());
  EXPECT_EQ(times.First(0, 100), nullptr);
  for (Node& node : nodes) times.Add(node);
  EXPECT_EQ(times.First(0, 100), &nodes[0]);
  EXPECT_EQ(times.First(30, 30), &nodes[0]);
  EXPECT_EQ(times.First(10, 29), &nodes[1]);
  EXPECT_EQ(times.First(11, 29), &nodes[2]);
  EXPECT_EQ(times.First(11, 19), nullptr);
  EXPECT_EQ(times.First(31, 100), nullptr);
  EXPECT_EQ(times.First(0, 9), nullptr);
  times.Remove(nodes[2]);
  EXPECT_EQ(times.First(11, 29), &nodes[3]);
}

// Nodes come at the end and leave at the front, as in a join.
TEST(LabelTimes, FindWhatALookAtAllFindsInAnyOrderOfTimes) {
  std::mt19937 random(7);
  const auto draw = [&random](int64_t below) {
    return std::uniform_int_distribution<int64_t>(0, below - 1)(random);
  };
  for (const int64_t jitter : {1, 50, 100'000}) {
    LabelTimes times;
    std::deque<Node> nodes;
    int64_t found = 0;
    for (int64_t offset = 0; offset < 3'000; ++offset) {
      times.Add(nodes.emplace_back(Node{offset * 3 - draw(jitter), offset}));
      while (nodes.size() > 300 || (nodes.size() > 1 && draw(10) == 0)) {
        times.Remove(nodes.front());
        nodes.pop_front();
      }
      const int64_t begin = offset * 3 - draw(jitter + 300);
      const int64_t end = begin + draw(100);
      const Node* expected = nullptr;
      for (const Node& node : nodes) {
        if (node.time_ms < begin || node.time_ms > end) continue;
        expected = &node;
        break;
      }
      ASSERT_EQ(times.First(begin, end), expected) << "jitter " << jitter << ", offset " << offset;
      found += expected != nullptr ? 1 : 0;
    }
    EXPECT_GT(found, 20);
    while (!nodes.empty()) {
      times.Remove(nodes.front());
      nodes.pop_front();
    }
    EXPECT_TRUE(times.empty());
  }
}

// Nodes are visited by calls in calls: a list would have no stack.
TEST(LabelTimes, ManyInOrderAreNoDeepTree) {
  std::deque<Node> nodes;
  LabelTimes times;
  for (int64_t i = 0; i < 200'000; ++i) times.Add(nodes.emplace_back(Node{i, i}));
  EXPECT_EQ(times.First(199'000, 2'000'000), &nodes[199'000]);
  for (int64_t i = 0; i < 200'000; ++i) {
    times.Remove(nodes.front());
    nodes.pop_front();
  }
  EXPECT_TRUE(times.empty());
}

}  // namespace
}  // namespace millrace
