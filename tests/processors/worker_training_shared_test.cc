// Weights that all workers are sent once.
#include <memory>
#include <vector>

#include "tests/processors/worker_training_fixture.h"

namespace millrace {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

WorkerOptions SharedOptions(
    Training::Consistency::Model model = Training::Consistency::SEQUENTIAL) {
  WorkerOptions options = TrainingWorker::Options();
  options.worker = 1;
  options.workers = 3;
  options.training.mutable_consistency()->set_model(model);
  return options;
}

// The answer's values as a shared record, with the answers to these workers.
std::shared_ptr<const SharedWeights> Shared(const Weights& answer, uint64_t version,
                                            const std::vector<WorkerId>& workers) {
  auto shared = std::make_shared<SharedWeights>();
  shared->set_epoch(answer.epoch());
  shared->set_shard(answer.shard());
  shared->set_version(version);
  *shared->mutable_slice() = answer.slice();
  *shared->mutable_moments() = answer.moments();
  for (const WorkerId worker : workers) {
    SharedWeights::Answer& one = *shared->add_answers();
    one.set_worker(worker);
    one.set_clock(answer.clock());
    one.set_released(answer.released());
    *one.mutable_rows() = answer.rows();
  }
  return shared;
}

// The worker's own part of an answer, whose values are in the shared record of this version.
Weights Naming(Weights answer, uint64_t version) {
  answer.clear_slice();
  answer.clear_moments();
  answer.set_shared(version);
  return answer;
}

TEST(SharedWeightsTest, AnAnswerInASharedRecordGivesTheSameUpdateAsOneOfItsOwn) {
  TrainingWorker alone(SharedOptions());
  alone.AddRows(4);
  const Gradient expected = alone.UpdateOf(0);

  TrainingWorker worker(SharedOptions());
  worker.AddRows(4);
  EXPECT_TRUE(worker.training().ProcessShared(Shared(worker.Answer(0), 7, {0, 1, 2})));
  const std::vector<Gradient> messages = worker.Train();
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].SerializeAsString(), expected.SerializeAsString());
}

TEST(SharedWeightsTest, ARecordThatAnswersOthersOnlySaysNothingNew) {
  TrainingWorker worker(SharedOptions());
  worker.AddRows(4);
  EXPECT_FALSE(worker.training().ProcessShared(Shared(worker.Answer(0), 7, {0, 2})));
  EXPECT_THAT(worker.Train(), IsEmpty());
  EXPECT_FALSE(worker.training().answered());
}

TEST(SharedWeightsTest, AnAnswerAndTheValuesThatItNamesMayComeInAnyOrder) {
  for (const bool values_first : {true, false}) {
    TrainingWorker worker(SharedOptions());
    worker.AddRows(4);
    const auto shared = Shared(worker.Answer(0), 7, {0, 2});
    if (values_first) worker.training().ProcessShared(shared);
    EXPECT_THAT(worker.ReceiveAndTrain(Naming(worker.Answer(0), 7)), SizeIs(values_first ? 1 : 0));
    if (values_first) continue;
    EXPECT_TRUE(worker.training().ProcessShared(shared));
    EXPECT_THAT(worker.Train(), SizeIs(1));
  }
}

// A sequential job must repeat its bytes; in others newer weights are as good.
TEST(SharedWeightsTest, ValuesOfALaterVersionServeOnlyAJobThatIsNotSequential) {
  for (const auto model : {Training::Consistency::SEQUENTIAL, Training::Consistency::EVENTUAL}) {
    TrainingWorker worker(SharedOptions(model));
    worker.AddRows(4);
    EXPECT_THAT(worker.ReceiveAndTrain(Naming(worker.Answer(0), 7)), IsEmpty());
    EXPECT_FALSE(worker.training().ProcessShared(Shared(worker.Answer(3), 6, {0})));
    const bool serves = worker.training().ProcessShared(Shared(worker.Answer(3), 8, {0}));
    EXPECT_EQ(serves, model == Training::Consistency::EVENTUAL);
    EXPECT_THAT(worker.Train(), SizeIs(serves ? 1 : 0));
  }
}

TEST(SharedWeightsTest, AnOlderRecordThatComesLateDoesNotTakeThePlaceOfANewerOne) {
  TrainingWorker worker(SharedOptions());
  worker.AddRows(4);
  worker.training().ProcessShared(Shared(worker.Answer(0), 7, {0}));
  worker.training().ProcessShared(Shared(worker.Answer(3), 6, {0}));
  EXPECT_THAT(worker.ReceiveAndTrain(Naming(worker.Answer(0), 7)), SizeIs(1));
}

TEST(SharedWeightsTest, AsksForValuesThatDoNotComeAndTakesThemWithTheAnswer) {
  TrainingWorker worker(SharedOptions());
  worker.AddRows(4);
  EXPECT_THAT(worker.ReceiveAndTrain(Naming(worker.Answer(0), 7)), IsEmpty());
  const std::vector<Gradient> asked = worker.Repeat();
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_TRUE(asked[0].has_ask());
  EXPECT_THAT(worker.ReceiveAndTrain(worker.Answer(0)), SizeIs(1));
}

// One that somebody made up, of a version that the shard never reaches.
TEST(SharedWeightsTest, ARecordThatIsMadeUpIsNotTakenInPlaceOfTheOneThatAnAnswerNames) {
  for (const auto model : {Training::Consistency::SEQUENTIAL, Training::Consistency::EVENTUAL}) {
    TrainingWorker alone(SharedOptions(model));
    alone.AddRows(8);
    alone.UpdateOf(0);
    const Gradient expected = alone.UpdateOf(1);

    TrainingWorker worker(SharedOptions(model));
    worker.AddRows(8);
    worker.UpdateOf(0);
    worker.training().ProcessShared(Shared(worker.Answer(3), UINT64_MAX, {0}));
    worker.training().ProcessShared(Shared(worker.Answer(1), 7, {0}));
    const std::vector<Gradient> messages = worker.ReceiveAndTrain(Naming(worker.Answer(1), 7));
    ASSERT_THAT(messages, SizeIs(1));
    EXPECT_EQ(messages[0].SerializeAsString(), expected.SerializeAsString());
  }
}

// The values that its answer names were lost with the shard: those before are the best there are.
TEST(SharedWeightsTest, ReportsTheValuesBeforeWhenThoseOfItsAnswerHaveNotCome) {
  TrainingWorker worker(SharedOptions());
  worker.AddRows(4);
  const Weights before = worker.Answer(0);
  worker.training().ProcessShared(Shared(before, 6, {0}));
  EXPECT_THAT(worker.ReceiveAndTrain(Naming(worker.Answer(1), 7)), IsEmpty());
  Weights lost;
  lost.set_epoch(before.epoch());
  lost.set_lost(true);
  const std::vector<Gradient> messages = worker.ReceiveAndTrain(lost);
  ASSERT_FALSE(messages.empty());
  ASSERT_TRUE(messages[0].has_restore());
  EXPECT_EQ(messages[0].restore().slice().SerializeAsString(), before.slice().SerializeAsString());
}

TEST(SharedWeightsTest, ReportsSharedValuesToAShardThatHasLostItsState) {
  TrainingWorker worker(SharedOptions());
  worker.AddRows(4);
  const Weights answer = worker.Answer(1);
  worker.training().ProcessShared(Shared(answer, 7, {1}));
  Weights lost;
  lost.set_epoch(answer.epoch());
  lost.set_lost(true);
  const std::vector<Gradient> messages = worker.ReceiveAndTrain(lost);
  ASSERT_FALSE(messages.empty());
  ASSERT_TRUE(messages[0].has_restore());
  EXPECT_EQ(messages[0].restore().slice().SerializeAsString(), answer.slice().SerializeAsString());
  EXPECT_TRUE(messages[0].restore().has_moments());
}

}  // namespace
}  // namespace millrace
