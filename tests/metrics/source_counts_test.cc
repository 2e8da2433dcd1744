#include "metrics/source_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/metrics/points.h"

namespace millrace {
namespace {

TEST(SourceCounts, TravelInAPointWithoutThePositions) {
  SourceState state;
  state.set_number(7);
  state.set_topic("departures");
  state.set_rows(1'000);
  state.set_dead_letters(3);
  state.set_tombstones(4);
  state.add_next_offset(99);
  state.mutable_labels()->set_topic("verdicts");
  state.mutable_labels()->set_matched(990);
  state.mutable_labels()->add_partition()->set_read(5);
  state.mutable_labels()->add_row_newest_ms(6);
  MetricPoint point = ProducerAt(1'000, 10, 10, 1'000, false);
  AddSourceCounts(state, *point.mutable_producer());

  MetricPoint received;
  ASSERT_TRUE(received.ParseFromString(point.SerializeAsString()));
  EXPECT_EQ(received.producer().rows_sent(), 1'000u);
  const std::optional<SourceState> counts = SourceCountsOf(received.producer());
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->topic(), "departures");
  EXPECT_EQ(counts->rows(), 1'000u);
  EXPECT_EQ(counts->dead_letters(), 3u);
  EXPECT_EQ(counts->tombstones(), 4u);
  EXPECT_EQ(counts->next_offset_size(), 0);
  EXPECT_EQ(counts->labels().topic(), "verdicts");
  EXPECT_EQ(counts->labels().matched(), 990u);
  EXPECT_EQ(counts->labels().partition_size(), 0);
  EXPECT_EQ(counts->labels().row_newest_ms_size(), 0);
}

TEST(SourceCounts, AreNotThereInAPointOfAnotherProducer) {
  MetricPoint point = ProducerAt(1'000, 10, 10, 1'000, false);
  EXPECT_FALSE(SourceCountsOf(point.producer()));
  EXPECT_STREQ(NameOfProducer(point.producer()), "CsvProducer");
  AddSourceCounts({}, *point.mutable_producer());
  EXPECT_STREQ(NameOfProducer(point.producer()), "TopicSource");
}

TEST(SourceCounts, TellThoseOfLabels) {
  SourceState::Labels labels;
  labels.set_matched(1200);
  EXPECT_EQ(LabelCountsText(labels), "1,200 rows have a label");
  labels.set_defaulted(2);
  labels.set_unmatched(3);
  labels.set_unused(4);
  labels.set_dead_letters(5);
  labels.set_tombstones(6);
  labels.set_lost(7);
  EXPECT_EQ(LabelCountsText(labels),
            "1,200 rows have a label; 2 without one got that of --unmatched-label; 3 without one "
            "were left out; 4 labels were of no row; 5 records of labels could not be used and are "
            "in dead-letter; 6 records of labels had no value; 7 offsets of labels were deleted "
            "before they were read");
  EXPECT_EQ(JoinedRows(labels), 1205u);
}

}  // namespace
}  // namespace millrace
