// A server's streams of answers and their receivers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/line_sink.h"
#include "job/job_registry.h"
#include "rpc/answer_receiver.h"
#include "rpc/answer_server.h"
#include "tests/kafka/mock_cluster.h"
#include "topics/frame.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using ::testing::UnorderedElementsAre;

OutgoingRecord AnswerTo(WorkerId worker, const std::string& text) {
  return {
      Topic::kWeights, static_cast<int32_t>(worker), "key", MakeFrames(text, 0).front(), {worker}};
}

class StraightAnswersTest : public testing::Test {
 protected:
  StraightAnswersTest() {
    config_.set_name("straight");
    config_.set_epoch(3);
    config_.set_brokers(cluster_.options().brokers);
    cluster_.CreateTopic(TopicName("straight", Topic::kJob), 1);
  }

  std::unique_ptr<AnswerServer> Serve(uint64_t epoch = 3, size_t most_waiting_bytes = 1 << 20) {
    auto server = AnswerServer::Start({.job = "straight",
                                       .epoch = epoch,
                                       .listen = "127.0.0.1:0",
                                       .tls = {},
                                       .most_waiting_bytes = most_waiting_bytes},
                                      &server_wakeup_);
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }

  void Offer(const std::string& address, uint32_t shard = 0) {
    AnswerOffer offer;
    offer.set_epoch(3);
    offer.set_shard(shard);
    offer.set_address(address);
    const auto registry = JobRegistry::Create(config_, stop_);
    ASSERT_TRUE((*registry)->PublishAnswerOffer(offer).ok());
  }
  void Offer(const AnswerServer& server) { Offer("127.0.0.1:" + std::to_string(server.port())); }

  std::unique_ptr<AnswerReceiver> Receive(const std::set<WorkerId>& workers) {
    auto receiver = AnswerReceiver::Create(config_, 2, &receiver_wakeup_);
    EXPECT_TRUE(receiver.ok()) << receiver.status();
    (*receiver)->Subscribe(workers);
    return *std::move(receiver);
  }

  // Whether `done` comes true, while records are taken.
  bool Until(AnswerReceiver* receiver, const std::function<bool()>& done,
             std::chrono::seconds patience = std::chrono::seconds(60)) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < end) {
      if (receiver != nullptr) {
        receiver->Poll([this](int32_t partition, std::string_view, std::string_view value) {
          got_.emplace_back(partition, ParseFrame(value)->body);
          return verdict_;
        });
      }
      if (done()) return true;
      if (receiver != nullptr) {
        receiver->WaitFor(std::chrono::milliseconds(5));
      } else {
        receiver_wakeup_.WaitFor(std::chrono::milliseconds(5));
      }
    }
    return false;
  }

  // Until the worker's answers go by a stream only.
  bool IsSubscribed(AnswerServer& server, AnswerReceiver* receiver, WorkerId worker) {
    return Until(receiver, [&] {
      const bool is_there = !server.Send(AnswerTo(worker, "there?"));
      server.Advance();
      return is_there;
    });
  }

  MockCluster cluster_;
  JobConfig config_;
  std::atomic<bool> stop_ = false;
  Wakeup server_wakeup_;
  Wakeup receiver_wakeup_;
  std::vector<std::pair<int32_t, std::string>> got_;
  Status verdict_ = absl::OkStatus();
};

TEST_F(StraightAnswersTest, ComeInOrderToTheProcessThatHasTheWorkerAndNotThroughTheLog) {
  const auto server = Serve();
  Offer(*server);
  const auto receiver = Receive({1, 2});
  ASSERT_TRUE(IsSubscribed(*server, receiver.get(), 1));
  EXPECT_TRUE(server->Send(AnswerTo(3, "of nobody here")));
  ASSERT_TRUE(Until(receiver.get(), [&] { return got_.size() == 1; }));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(server->Send(AnswerTo(2, std::to_string(i))));
  ASSERT_TRUE(Until(receiver.get(), [&] { return got_.size() == 101; }));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(got_[static_cast<size_t>(i) + 1], std::pair(2, std::to_string(i)));
  }
  receiver->Subscribe({2});
  ASSERT_TRUE(
      Until(receiver.get(), [&] { return server->Send(AnswerTo(1, "not any more")).has_value(); }));
  EXPECT_THAT(server->TakeLost(), testing::ElementsAre(WorkerId(1)));
}

TEST_F(StraightAnswersTest, OfAProcessThatHasGoneGoThroughTheLogAndItsWorkersAreNamed) {
  const auto server = Serve();
  Offer(*server);
  auto receiver = Receive({1, 2});
  ASSERT_TRUE(IsSubscribed(*server, receiver.get(), 1));
  EXPECT_FALSE(receiver->TakeEnded());
  receiver.reset();
  std::vector<WorkerId> lost;
  ASSERT_TRUE(Until(nullptr, [&] {
    const std::vector<WorkerId> more = server->TakeLost();
    lost.insert(lost.end(), more.begin(), more.end());
    return !lost.empty();
  }));
  EXPECT_THAT(lost, UnorderedElementsAre(WorkerId(1), WorkerId(2)));
  EXPECT_TRUE(server->Send(AnswerTo(1, "")));
}

TEST_F(StraightAnswersTest, ComeFromTheServersNewAddress) {
  auto server = Serve();
  Offer(*server);
  const auto receiver = Receive({1});
  ASSERT_TRUE(IsSubscribed(*server, receiver.get(), 1));
  server.reset();
  EXPECT_TRUE(Until(receiver.get(), [&] { return receiver->TakeEnded(); }));
  EXPECT_FALSE(receiver->TakeEnded()) << "it was said";
  server = Serve();
  Offer(*server);
  EXPECT_TRUE(IsSubscribed(*server, receiver.get(), 1));
}

TEST_F(StraightAnswersTest, OfAnotherEpochAreNotTaken) {
  const auto server = Serve(4);
  Offer(*server);
  const auto receiver = Receive({1});
  EXPECT_FALSE(Until(
      receiver.get(), [&] { return !server->Send(AnswerTo(1, "")); }, std::chrono::seconds(1)));
}

TEST_F(StraightAnswersTest, OfAnotherMachineAreNotTakenWithoutTls) {
  const auto server = Serve();
  Offer("0.0.0.0:" + std::to_string(server->port()));  // which is reached here as another machine
  {
    const auto receiver = Receive({1});
    EXPECT_FALSE(Until(
        receiver.get(), [&] { return !server->Send(AnswerTo(1, "")); }, std::chrono::seconds(1)));
  }
  config_.mutable_answers()->set_insecure(true);
  const auto receiver = Receive({1});
  EXPECT_TRUE(IsSubscribed(*server, receiver.get(), 1));
}

TEST_F(StraightAnswersTest, ThatCannotBeHadAreSaidOnceForEachAddressWithTheReasonAndTheRemedy) {
  std::mutex mutex;
  std::vector<std::string> said;
  SetLineSink([&](std::string_view line) {
    const std::lock_guard<std::mutex> lock(mutex);
    said.emplace_back(line);
  });
  const auto of_address = [&](const std::string& address) {
    const std::lock_guard<std::mutex> lock(mutex);
    return std::ranges::count_if(said, [&](const std::string& line) {
      return line.starts_with("no straight answers from " + address + ": ") &&
             line.find("check that this address") != std::string::npos &&
             line.ends_with("They come through Kafka");
    });
  };
  Offer("127.0.0.1:1", 0);
  const auto receiver = Receive({1});
  EXPECT_TRUE(Until(receiver.get(), [&] { return of_address("127.0.0.1:1") > 0; }));
  Offer("127.0.0.1:2", 1);  // which is found when it tries the other one again
  EXPECT_TRUE(Until(receiver.get(), [&] { return of_address("127.0.0.1:2") > 0; }));
  EXPECT_EQ(of_address("127.0.0.1:1"), 1);
  SetLineSink(nullptr);
}

TEST_F(StraightAnswersTest, ThatNobodyTakesDoNotGrowTheServer) {
  const auto server = Serve(3, 200'000);
  Offer(*server);
  const auto receiver = Receive({1});
  ASSERT_TRUE(IsSubscribed(*server, receiver.get(), 1));
  // Its receiver stops to read when it has more than enough; then the stream's room fills.
  const std::string text(50'000, 'x');
  int sent = 0;
  auto last = std::chrono::steady_clock::now();
  ASSERT_TRUE(Until(nullptr, [&] {
    const int before = sent;
    while (sent < 10'000 && !server->Send(AnswerTo(1, text))) ++sent;
    const auto now = std::chrono::steady_clock::now();
    if (sent > before) last = now;
    return now - last > std::chrono::milliseconds(500);
  }));
  EXPECT_GT(sent, 700) << "a receiver holds 32 MiB";
  EXPECT_LT(sent, 2'000);
  EXPECT_TRUE(server->Send(AnswerTo(1, text)));
  ASSERT_TRUE(IsSubscribed(*server, receiver.get(), 1)) << "there is room again";
}

TEST_F(StraightAnswersTest, ThatCannotBeUsedEndTheirStream) {
  const auto server = Serve();
  Offer(*server);
  const auto receiver = Receive({1});
  ASSERT_TRUE(IsSubscribed(*server, receiver.get(), 1));
  verdict_ = absl::InvalidArgumentError("not one of ours");
  EXPECT_TRUE(Until(receiver.get(), [&] { return !server->TakeLost().empty(); }));
}

}  // namespace
}  // namespace millrace
