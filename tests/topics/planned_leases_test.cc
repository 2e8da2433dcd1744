// What a process reads in `plan` of the rows that its workers have.
#include "topics/planned_leases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "topics/plan_codec.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

void Take(PlannedLeases& plan, uint32_t worker, uint64_t rows) {
  WorkerLeases leases;
  leases.set_worker(worker);
  leases.set_next_number(1);
  leases.set_next_row(rows);
  leases.set_counted_rows(rows);
  plan.Take("lease:" + std::to_string(worker), EncodePlanValue(leases));
}

void TakeInputOf(PlannedLeases& plan, uint32_t partition, bool ended) {
  InputState input;
  input.set_partition(partition);
  input.set_cut_row(partition + 1);
  input.set_ended(ended);
  plan.Take("input:" + std::to_string(partition), EncodePlanValue(input));
}

std::vector<uint32_t> PartitionsOf(const std::vector<InputState>& inputs) {
  std::vector<uint32_t> partitions;
  for (const InputState& input : inputs) partitions.push_back(input.partition());
  return partitions;
}

TEST(PlannedLeases, AreTheNewestRecordOfAWorker) {
  PlannedLeases plan;
  EXPECT_EQ(plan.Of(2), nullptr);
  Take(plan, 2, 5);
  Take(plan, 0, 1);
  Take(plan, 2, 7);
  ASSERT_NE(plan.Of(2), nullptr);
  EXPECT_EQ(plan.Of(2)->next_row(), 7u);
  EXPECT_THAT(plan.TakeChanged(), ElementsAre(0u, 2u));
  EXPECT_THAT(plan.TakeChanged(), IsEmpty());
}

// The worker's leases are the last, and so many share the ends of partitions.
void TakeLastOf(PlannedLeases& plan, uint32_t worker, uint32_t readers) {
  WorkerLeases leases;
  leases.set_worker(worker);
  leases.set_last(true);
  leases.set_tail_readers(readers);
  plan.Take("lease:" + std::to_string(worker), EncodePlanValue(leases));
}

TEST(PlannedLeases, ShareTheEndsOfPartitionsAmongTheWorkersThatAreThereThen) {
  PlannedLeases plan;
  for (const uint32_t partition : {0, 1, 2, 3, 4}) TakeInputOf(plan, partition, partition != 2);
  EXPECT_THAT(plan.TailsOf(0), IsEmpty()) << "the worker is not known";
  TakeLastOf(plan, 0, 2);
  TakeLastOf(plan, 1, 2);
  TakeLastOf(plan, 2, 0);  // it was to leave before
  EXPECT_THAT(PartitionsOf(plan.TailsOf(0)), ElementsAre(0u, 4u)) << "the other has not ended";
  EXPECT_THAT(PartitionsOf(plan.TailsOf(1)), ElementsAre(1u, 3u));
  EXPECT_THAT(plan.TailsOf(2), IsEmpty());
  TakeInputOf(plan, 2, true);
  EXPECT_THAT(PartitionsOf(plan.TailsOf(0)), ElementsAre(0u, 2u, 4u));
}

TEST(PlannedLeases, AreNotToldByOtherRecordsAndDamage) {
  PlannedLeases plan;
  Take(plan, 2, 5);
  TakeInputOf(plan, 0, true);
  (void)plan.TakeChanged();
  WorkerLeases bad;  // more rows are counted than were leased
  bad.set_worker(2);
  bad.set_counted_rows(1);
  plan.Take("lease:2", EncodePlanValue(bad));
  WorkerLeases another;
  another.set_worker(3);
  for (const char* key : {"lease:2", "lease:03", "lease:", "lease:3x"}) {
    plan.Take(key, EncodePlanValue(another));
  }
  InputState input;
  input.set_partition(1);
  plan.Take("input:0", EncodePlanValue(input));
  input.set_cut_offset(-1);
  plan.Take("input:1", EncodePlanValue(input));
  plan.Take("lease:2", "damage");
  plan.Take("lease:2", {});
  plan.Take("state", "anything");
  EXPECT_EQ(plan.Of(2)->next_row(), 5u);
  EXPECT_EQ(plan.Of(3), nullptr);
  EXPECT_THAT(plan.TakeChanged(), IsEmpty());
  TakeLastOf(plan, 0, 1);
  EXPECT_THAT(PartitionsOf(plan.TailsOf(0)), ElementsAre(0u));
}

}  // namespace
}  // namespace millrace
