#include "processors/received_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace millrace {
namespace {

// Two values a row: `value` and the id.
EmbeddingBlock Rows(const std::vector<EmbeddingId>& ids, float value) {
  EmbeddingBlock rows;
  for (const EmbeddingId id : ids) {
    rows.add_id(id);
    rows.add_value(value);
    rows.add_value(static_cast<float>(id));
  }
  return rows;
}

// What is found of one row alone.
const float* Find(const ReceivedRows& received, EmbeddingId id, Clock min_clock) {
  std::vector<const float*> found;
  received.FindAll({&id, 1}, 2, min_clock, found);
  return found.front();
}

TEST(ReceivedRows, TheNewestValuesOfARowCount) {
  ReceivedRows received(2);
  received.Add(Rows({2, 5, 9}, 1), Clock(0));
  received.Add(Rows({5, 7}, 2), Clock(0));
  const std::vector<EmbeddingId> all = {2, 5, 7, 9};
  EXPECT_TRUE(received.Have(all, Clock(0)));
  for (const EmbeddingId id : all) {
    const float* const row = Find(received, id, Clock(0));
    ASSERT_NE(row, nullptr);
    EXPECT_EQ(row[0], id == 5 || id == 7 ? 2 : 1);
    EXPECT_EQ(row[1], static_cast<float>(id));
  }
  EXPECT_EQ(Find(received, 6, Clock(0)), nullptr);
}

TEST(ReceivedRows, ManyAreFoundAtOnceAsEachAlone) {
  ReceivedRows received(3);
  received.Add(Rows({1, 2, 3, 5, 8, 13, 21}, 1), Clock(0));
  received.Add(Rows({4, 5, 6, 20, 21, 22}, 2), Clock(1));
  received.Add(Rows({2, 22}, 3), Clock(0));
  const std::vector<EmbeddingId> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 19, 20, 21, 22, 23};
  std::vector<EmbeddingId> odd;
  std::ranges::copy_if(all, std::back_inserter(odd), [](EmbeddingId id) { return id % 2 == 1; });
  for (const std::vector<EmbeddingId>& ids : {all, odd}) {
    for (const Clock least : std::vector<Clock>{0, 1}) {
      std::vector<const float*> found;
      received.FindAll(ids, 2, least, found);
      ASSERT_EQ(found.size(), ids.size());
      for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(found[i], Find(received, ids[i], least)) << ids[i];
        if (found[i] == nullptr) continue;
        EXPECT_EQ(found[i][1], static_cast<float>(ids[i]));
      }
    }
  }
  EXPECT_EQ(Find(received, 2, Clock(0))[0], 3);
  EXPECT_EQ(Find(received, 5, Clock(0))[0], 2);
  EXPECT_EQ(Find(received, 8, Clock(0))[0], 1);
  EXPECT_EQ(Find(received, 8, Clock(1)), nullptr);
}

TEST(ReceivedRows, KeepsTheRowsOfSoManyAnswers) {
  ReceivedRows received(1);
  received.Add(Rows({2}, 1), Clock(0));
  received.Add(Rows({5}, 1), Clock(0));
  EXPECT_FALSE(received.Have(std::vector<EmbeddingId>{2}, Clock(0)));
  received.Clear();
  EXPECT_FALSE(received.Have(std::vector<EmbeddingId>{5}, Clock(0)));
  EXPECT_TRUE(received.Have(std::vector<EmbeddingId>(), Clock(0)));
}

// The bound of a bounded job holds for rows, too.
TEST(ReceivedRows, WhatWasReadTooLongAgoHasNotCome) {
  ReceivedRows received(2);
  received.Add(Rows({2, 5}, 1), Clock(3));
  received.Add(Rows({5}, 2), Clock(4));
  EXPECT_TRUE(received.Have(std::vector<EmbeddingId>{2, 5}, Clock(3)));
  EXPECT_FALSE(received.Have(std::vector<EmbeddingId>{2, 5}, Clock(4)));
  EXPECT_TRUE(received.Have(std::vector<EmbeddingId>{5}, Clock(4)));
}

}  // namespace
}  // namespace millrace
