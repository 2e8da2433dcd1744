#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "models/external_model.h"
#include "tasks/trainer_task.h"
#include "tests/processors/parameters_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two trainers of an eventual job, on one shard, whose messages all arrive.
class EventualTrainers {
 public:
  EventualTrainers() : job_({{.size = 3, .handler = "add"}}, 1, 2, kEventual) {
    WorkerOptions options;
    options.workers = 2;
    options.classes = 0;
    options.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
    for (uint32_t w = 0; w < 2; ++w) {
      options.worker = WorkerId(w);
      tasks_.push_back(
          std::make_unique<TrainerTask>(options, model_, std::vector<KeyRange>{{0, 3}}, w + 1));
      Ask(w);
    }
  }

  TrainerSteps& steps(uint32_t w) { return tasks_[w]->steps(); }

  // Asks for the newest values, and takes the answers.
  void Ask(uint32_t w) {
    steps(w).WantValues();
    std::vector<OutgoingRecord> out;
    tasks_[w]->Start(out);
    Send(std::move(out));
    Advance(w);
  }

  void Advance(uint32_t w) {
    std::vector<OutgoingRecord> out;
    ASSERT_TRUE(tasks_[w]->Advance(out).ok());
    Send(std::move(out));
  }

 private:
  void Send(std::vector<OutgoingRecord> records) {
    for (OutgoingRecord& record : records) {
      TestServer& server = job_.server(0);
      const ServerOutput output = server.Send(LogRecord{record.key, record.value});
      for (const WorkerId worker : output.answers) {
        const bool replies = output.reply && output.reply->worker == worker;
        const auto body =
            server.processor().Answer(worker, {.answers_to = replies ? output.reply->number : 0});
        ASSERT_TRUE(body.ok()) << body.status();
        const std::string key = EncodeBigEndian32(0) + EncodeBigEndian32(0);
        ASSERT_TRUE(
            tasks_[worker]->ProcessWeights(key, MakeFrames(body->Joined(), 0).front()).ok());
      }
    }
  }

  ParameterJob job_;
  ExternalModel model_{3};
  std::vector<std::unique_ptr<TrainerTask>> tasks_;
};

TEST(TrainerPutsTest, WhoAsksAgainAtTheSameClockSeesWhatAnotherHasPut) {
  EventualTrainers trainers;
  ASSERT_EQ(trainers.steps(0).values_at(), Clock(0));
  EXPECT_THAT(trainers.steps(0).has_values(), IsEmpty());
  trainers.steps(1).Add(0, {.put = {{0, {1, 2, 3}}}});
  trainers.Advance(1);
  trainers.Ask(0);
  EXPECT_EQ(trainers.steps(0).values_at(), Clock(0));
  EXPECT_THAT(trainers.steps(0).has_values(), ElementsAre(0));
  EXPECT_THAT(trainers.steps(0).values(), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace millrace
