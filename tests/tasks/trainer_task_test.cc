// Trainers of one's own against shards, with messages that are lost and processes that die.
#include "tasks/trainer_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "models/external_model.h"
#include "tests/processors/parameters_fixture.h"

namespace millrace {
namespace {

constexpr uint32_t kTrainers = 2;
constexpr uint32_t kShards = 2;
constexpr Clock kLastStep = 8;

// Parameters of which the shards' border goes through the second.
std::vector<PlainParameters::Parameter> Parameters() {
  return {{.size = 3, .handler = "adam"}, {.size = 4, .handler = "momentum"}};
}

class World {
 public:
  explicit World(ConsistencyPolicy policy, double trouble, uint32_t seed, size_t pipeline = 1)
      : job_(Parameters(), kShards, kTrainers, policy, pipeline), trouble_(trouble), random_(seed) {
    options_.pipeline = pipeline;
    options_.workers = kTrainers;
    options_.shards = kShards;
    options_.classes = 0;
    if (!policy.sequential()) {
      options_.training.mutable_consistency()->set_model(Training::Consistency::EVENTUAL);
    }
    for (uint32_t w = 0; w < kTrainers; ++w) Begin(w);
  }

  // False: it hangs.
  bool Run() {
    for (int turn = 0; turn < 20'000; ++turn) {
      const auto w = static_cast<uint32_t>(random_() % kTrainers);
      if (Happens(0.1)) Begin(w);
      if (Happens(0.1)) job_.Restart(static_cast<uint32_t>(random_() % kShards));
      Advance(w);
      if (random_() % 20 == 0) {
        std::vector<OutgoingRecord> out;
        tasks_[w]->Repeat(out);
        Send(std::move(out));
      }
      if (tasks_[0]->left() && tasks_[1]->left()) return true;
    }
    return false;
  }

  // Somebody sends all shards a step of a trainer's first clock, which counts rows.
  void CountRows(uint32_t w, uint64_t rows) {
    const PlainUpdate puts = {.put = {{0, {1, 2, 3}}, {1, {1, 1, 1, 1}}}};
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      Gradient message = job_.PartOfUpdate(shard, WorkerId(w), 0, puts);
      message.mutable_update()->set_rows_end(rows);
      job_.server(shard).Send(message);
    }
  }

  std::vector<float> values() const { return job_.values(); }
  uint64_t begun() const { return begun_; }

 private:
  bool Happens(double share) { return std::bernoulli_distribution(share * trouble_)(random_); }

  void Begin(uint32_t w) {
    options_.worker = WorkerId(w);
    tasks_[w] = std::make_unique<TrainerTask>(options_, model_,
                                              std::vector<KeyRange>{{0, 3}, {3, 7}}, ++begun_);
    std::vector<OutgoingRecord> out;
    tasks_[w]->Start(out);
    Send(std::move(out));
  }

  // What a trainer does: a step of the values that it is given, and of nothing else.
  void Advance(uint32_t w) {
    TrainerSteps& steps = tasks_[w]->steps();
    std::vector<OutgoingRecord> out;
    ASSERT_TRUE(tasks_[w]->Advance(out).ok());
    if (steps.values_at() == Clock(0)) {
      steps.Add(Clock(0), {.put = {{0, {1, 2, 3}},
                                   {1, std::vector<float>(4, 1.0f + static_cast<float>(w))}}});
    } else if (steps.values_at() && *steps.values_at() <= kLastStep) {
      if (options_.pipeline == 1) {  // else they may be those of before
        ASSERT_THAT(steps.has_values(), ::testing::ElementsAre(0, 1));
      }
      steps.Add(*steps.values_at(), StepOf(w, *steps.values_at(), steps.values()));
    } else if (steps.values_at()) {
      steps.Leave();
    }
    ASSERT_TRUE(tasks_[w]->Advance(out).ok());
    Send(std::move(out));
  }

  static TrainerStep StepOf(uint32_t w, Clock clock, std::span<const float> values) {
    TrainerStep step{.weight = 1.0 + w};
    std::vector<float> gradient;
    for (const float value : values) {
      gradient.push_back(value * 0.1f + static_cast<float>(uint64_t{w} * 3 + uint64_t{clock}));
    }
    step.part[0].assign(gradient.begin(), gradient.begin() + 3);
    if (clock % 2 == 0) step.part[1].assign(gradient.begin() + 3, gradient.end());
    return step;
  }

  void Send(std::vector<OutgoingRecord> records) {
    for (OutgoingRecord& record : records) {
      if (Happens(0.2)) continue;
      const auto shard = static_cast<uint32_t>(record.partition);
      TestServer& server = job_.server(shard);
      const ServerOutput output = server.Send(LogRecord{record.key, record.value});
      ASSERT_TRUE(output.dead_letters.empty()) << output.dead_letters[0].reason();
      for (const WorkerId worker : output.answers) {
        const bool replies = output.reply && output.reply->worker == worker;
        const auto body =
            server.processor().Answer(worker, {.answers_to = replies ? output.reply->number : 0});
        Answer(shard, worker, body->Joined());
      }
      for (const auto& receiver : output.previous_answers) {
        Answer(shard, receiver.worker, server.processor().PreviousAnswer(receiver)->Joined());
      }
    }
  }

  void Answer(uint32_t shard, WorkerId worker, const std::string& body) {
    if (Happens(0.2) || tasks_[worker] == nullptr) return;
    const std::string key = EncodeBigEndian32(shard) + EncodeBigEndian32(0);
    ASSERT_TRUE(tasks_[worker]->ProcessWeights(key, MakeFrames(body, 0).front()).ok());
  }

  ParameterJob job_;
  const double trouble_;
  std::mt19937 random_;
  WorkerOptions options_;
  ExternalModel model_{7};
  std::unique_ptr<TrainerTask> tasks_[kTrainers];
  uint64_t begun_ = 0;
};

TEST(TrainerTaskTest, ASequentialJobHasTheBytesOfAnUndisturbedOneWhoeverDies) {
  World calm(kSequential, 0, 1);
  ASSERT_TRUE(calm.Run());
  uint64_t begun = 0;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    World disturbed(kSequential, 1, seed);
    ASSERT_TRUE(disturbed.Run()) << "seed " << seed << " hangs";
    ASSERT_EQ(disturbed.values(), calm.values()) << "seed " << seed;
    begun += disturbed.begun();
  }
  EXPECT_GT(begun, 1000u) << "trainers were hardly disturbed";
}

TEST(TrainerTaskTest, AnEventualJobComesToItsEndWhoeverDies) {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    World disturbed(kEventual, 1, seed);
    ASSERT_TRUE(disturbed.Run()) << "seed " << seed << " hangs";
  }
}

// A trainer has none, and neither stops nor waits for ever.
TEST(TrainerTaskTest, RowsThatSomebodyCountsInATrainersNameChangeNothing) {
  for (const size_t pipeline : {1, 3}) {
    const ConsistencyPolicy policy = pipeline == 1 ? kSequential : kEventual;
    for (uint32_t seed = 1; seed <= 20; ++seed) {
      World disturbed(policy, 0.5, seed, pipeline);
      disturbed.CountRows(1, 7);
      ASSERT_TRUE(disturbed.Run()) << "seed " << seed << " hangs, with " << pipeline;
    }
  }
}

}  // namespace
}  // namespace millrace
