// The library as C programs call it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/millrace.h"
#include "tests/client/client_fixture.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

#define EXPECT_OF_C(code, call) EXPECT_EQ(call, code) << millrace_error()

class CCallsTest : public ClientTest {
 protected:
  MillraceManager* ConnectInC(double timeout_s = 60) {
    MillraceManager* manager = nullptr;
    EXPECT_OF_C(kMillraceOk,
                millrace_connect(config_.brokers().c_str(), config_.name().c_str(), 1,
                                 config_.workers(), 0, timeout_s, nullptr, nullptr, &manager));
    return manager;
  }
};

TEST_F(CCallsTest, WithoutAMasterThereAreNoBarriersAndNoMembers) {
  MillraceManager* const manager = ConnectInC();
  EXPECT_OF_C(kMillraceFailedPrecondition, millrace_barrier(manager, "begin", 0));
  EXPECT_THAT(millrace_error(), HasSubstr("--master-address"));
  size_t count = 0;
  EXPECT_OF_C(kMillraceFailedPrecondition, millrace_members(manager, nullptr, 0, &count));
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_members(manager, nullptr, 1, &count));
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_barrier(manager, nullptr, 0));
  millrace_destroy(manager);
  // One that is not there is waited for.
  MillraceManager* other = nullptr;
  EXPECT_OF_C(kMillraceOk, millrace_connect(config_.brokers().c_str(), config_.name().c_str(), 1, 1,
                                            0, 0.5, "127.0.0.1:1", nullptr, &other));
  EXPECT_OF_C(kMillraceDeadlineExceeded, millrace_barrier(other, "begin", 0));
  EXPECT_THAT(millrace_error(), HasSubstr("MasterApp at 127.0.0.1:1"));
  millrace_stop(other, 1);
  EXPECT_OF_C(kMillraceCancelled, millrace_barrier(other, "begin", 0));
  millrace_destroy(other);
}

TEST_F(CCallsTest, TrainAsThoseOfCppDo) {
  StartServer();
  MillraceManager* const manager = ConnectInC();
  const std::array<int64_t, 2> shape{2, 3};
  int w = -1;
  int one = -1;
  EXPECT_OF_C(kMillraceOk, millrace_register(manager, "w", shape.data(), 2, "add", 1, 1, &w));
  EXPECT_OF_C(kMillraceOk, millrace_register(manager, "one", nullptr, 0, nullptr, 1, 1, &one));
  EXPECT_EQ(std::pair(w, one), std::pair(0, 1));
  const std::vector<float> first{1, 2, 3, 4, 5, 6};
  EXPECT_OF_C(kMillraceOk, millrace_put(manager, w, first.data(), 6));
  std::vector<float> values(6);
  uint64_t version = 9;
  EXPECT_OF_C(kMillraceOk, millrace_get(manager, w, values.data(), 6, &version));
  EXPECT_EQ(values, first);
  EXPECT_EQ(version, 0u);
  EXPECT_OF_C(kMillraceOk, millrace_update(manager, w, first.data(), 6));
  EXPECT_OF_C(kMillraceOk, millrace_step(manager, 1, nullptr));
  EXPECT_OF_C(kMillraceOk, millrace_collect(manager, w, values.data(), 6, &version));
  EXPECT_THAT(values, ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_EQ(version, 1u);
  uint64_t steps = 0;
  EXPECT_OF_C(kMillraceOk, millrace_steps(manager, &steps));
  EXPECT_EQ(steps, 1u);
  // Of seven numbers, four are on shard 0.
  std::array<MillraceShardRange, 2> ranges{};
  size_t count = 0;
  EXPECT_OF_C(kMillraceOk, millrace_shard(manager, w, nullptr, 0, &count));
  EXPECT_EQ(count, 2u);
  EXPECT_OF_C(kMillraceOk, millrace_shard(manager, w, ranges.data(), 2, &count));
  EXPECT_EQ(ranges[1].shard, 1u);
  EXPECT_EQ(std::pair(ranges[1].begin, ranges[1].end), std::pair(int64_t{4}, int64_t{6}));
  EXPECT_OF_C(kMillraceOk, millrace_leave(manager));
  millrace_destroy(manager);
  EXPECT_TRUE(server_->Join().ok());
}

TEST_F(CCallsTest, ReturnACodeAndSayWhatIsWrong) {
  MillraceManager* manager = nullptr;
  const std::array<const char*, 2> half{"security.protocol", nullptr};
  EXPECT_OF_C(kMillraceInvalidArgument,
              millrace_connect("localhost:1", "job", 1, 1, 0, 1, nullptr, half.data(), &manager));
  EXPECT_THAT(millrace_error(), HasSubstr("security.protocol: a key without a value"));
  const std::array<const char*, 3> bad{"no.such", "1", nullptr};
  EXPECT_OF_C(kMillraceInvalidArgument,
              millrace_connect("localhost:1", "job", 1, 1, 0, 1, nullptr, bad.data(), &manager));
  EXPECT_THAT(millrace_error(), HasSubstr("no.such"));
  EXPECT_OF_C(kMillraceUnavailable,
              millrace_connect("127.0.0.1:1", "job", 1, 1, 0, 0.2, nullptr, nullptr, &manager));
  EXPECT_EQ(manager, nullptr);
  manager = ConnectInC();
  const int64_t size = 2;
  int w = -1;
  EXPECT_OF_C(kMillraceInvalidArgument,
              millrace_register(manager, "w", &size, 1, "no such", 1, 1, &w));
  EXPECT_OF_C(kMillraceOk, millrace_register(manager, "w", &size, 1, "add", 1, 1, &w));
  EXPECT_EQ(std::string(millrace_error()), "");
  std::vector<float> values{1, std::nanf(""), 3};
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_put(manager, w, values.data(), 3));
  EXPECT_EQ(std::string(millrace_error()), "the parameter w has 2 values, not 3");
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_put(manager, w, values.data(), 2));
  EXPECT_THAT(millrace_error(), HasSubstr("w: a NaN"));
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_update(manager, w, values.data(), 1));
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_get(manager, w, values.data(), 3, nullptr));
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_collect(manager, 1, values.data(), 2, nullptr));
  EXPECT_EQ(std::string(millrace_error()), "there is no parameter 1");
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_get(manager, -1, values.data(), 2, nullptr));
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_get(manager, w, nullptr, 2, nullptr));
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_steps(manager, nullptr));
  millrace_destroy(manager);
  millrace_destroy(nullptr);
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_leave(nullptr));
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_step(nullptr, 1, nullptr));
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_put(nullptr, 0, values.data(), 2));
}

TEST_F(CCallsTest, AreStoppedByAnotherThread) {
  MillraceManager* const manager = ConnectInC(/*timeout_s=*/0);
  int w = -1;
  EXPECT_OF_C(kMillraceOk, millrace_register(manager, "w", nullptr, 0, nullptr, 1, 1, &w));
  std::thread stops([manager] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    millrace_stop(manager, 1);
  });
  uint64_t steps = 0;
  EXPECT_OF_C(kMillraceCancelled, millrace_steps(manager, &steps));  // there are no servers
  stops.join();
  StartServer();
  millrace_stop(manager, 0);
  EXPECT_OF_C(kMillraceOk, millrace_steps(manager, &steps));
  millrace_destroy(manager);
}

TEST_F(CCallsTest, GiveLinesToWhomAsksForThem) {
  std::string lines;
  millrace_set_log(
      [](const char* line, void* context) { static_cast<std::string*>(context)->append(line); },
      &lines);
  MillraceManager* manager = nullptr;
  EXPECT_OF_C(kMillraceUnavailable,
              millrace_connect("127.0.0.1:3", "job", 1, 1, 0, 0.5, nullptr, nullptr, &manager));
  millrace_set_log(nullptr, nullptr);  // from here on nobody writes to it
  EXPECT_THAT(lines, HasSubstr("no connection to 127.0.0.1:3"));
}

// The numbers are those of C++.
TEST(CCodesTest, AreThoseOfCpp) {
  EXPECT_EQ(kMillraceInvalidArgument, static_cast<int>(Code::kInvalidArgument));
  EXPECT_EQ(kMillraceFailedPrecondition, static_cast<int>(Code::kFailedPrecondition));
  EXPECT_EQ(kMillraceDeadlineExceeded, static_cast<int>(Code::kDeadlineExceeded));
  EXPECT_EQ(kMillraceCancelled, static_cast<int>(Code::kCancelled));
  EXPECT_EQ(kMillraceUnavailable, static_cast<int>(Code::kUnavailable));
  EXPECT_EQ(kMillracePermissionDenied, static_cast<int>(Code::kPermissionDenied));
  EXPECT_EQ(kMillraceDataLoss, static_cast<int>(Code::kDataLoss));
  EXPECT_EQ(kMillraceInternal, static_cast<int>(Code::kInternal));
}

// Each of the files is read where the trainer begins; which one is not there the error says.
TEST_F(CCallsTest, TakeTheFilesForStraightAnswers) {
  StartServer();
  const std::string cert = folder_ / "cert.pem";
  const std::string key = folder_ / "key.pem";
  const std::string ca = folder_ / "ca.pem";
  const MillraceAnswersTls answers = {cert.c_str(), key.c_str(), ca.c_str(), 0};
  for (const std::string& missing : {cert, key, ca}) {
    MillraceManager* manager = nullptr;
    EXPECT_OF_C(kMillraceOk,
                millrace_connect_tls(config_.brokers().c_str(), config_.name().c_str(), 1, 1, 0, 60,
                                     nullptr, nullptr, &answers, &manager));
    int w = -1;
    EXPECT_OF_C(kMillraceOk, millrace_register(manager, "w", nullptr, 0, "add", 1, 1, &w));
    uint64_t steps = 0;
    EXPECT_NE(millrace_steps(manager, &steps), kMillraceOk);
    EXPECT_THAT(millrace_error(), HasSubstr(missing));
    millrace_destroy(manager);
    std::ofstream(missing) << "-----BEGIN NOTHING-----";
  }
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_connect_tls("localhost:1", "job", 1, 1, 0, 60,
                                                             nullptr, nullptr, nullptr, nullptr));
}

// What the library says, of any thread.
struct Said {
  bool Has(const char* words) {
    const std::lock_guard<std::mutex> lock(mutex);
    return lines.find(words) != std::string::npos;
  }
  std::mutex mutex;
  std::string lines;
};

class StraightAnswersInC : public ClientTest {
 protected:
  std::string File(const std::string& name) const { return folder_ / name; }
  // It is its own authority.
  void MakeCertificate(const std::string& name) {
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "
        "/CN=here -addext subjectAltName=IP:127.0.0.1 -keyout " +
        File(name + ".key") + " -out " + File(name + ".pem") + " 2>/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  // Trains with this certificate until the library has said these words, and a step more; all
  // that it has said.
  std::string TrainUntilSaid(const std::string& certificate, const std::string& authority,
                             const char* words) {
    Said said;
    millrace_set_log(
        [](const char* line, void* context) {
          Said& all = *static_cast<Said*>(context);
          const std::lock_guard<std::mutex> lock(all.mutex);
          all.lines.append(line).append("\n");
        },
        &said);
    const std::string cert = File(certificate + ".pem");
    const std::string key = File(certificate + ".key");
    const std::string ca = File(authority + ".pem");
    const MillraceAnswersTls answers = {cert.c_str(), key.c_str(), ca.c_str(), 0};
    MillraceManager* manager = nullptr;
    EXPECT_OF_C(kMillraceOk,
                millrace_connect_tls(config_.brokers().c_str(), config_.name().c_str(), 1, 1, 0, 60,
                                     nullptr, nullptr, &answers, &manager));
    int w = -1;
    float value = 0;
    EXPECT_OF_C(kMillraceOk, millrace_register(manager, "w", nullptr, 0, "add", 1, 1, &w));
    EXPECT_OF_C(kMillraceOk, millrace_put(manager, w, &value, 1));
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    for (bool is_said = false; !is_said && std::chrono::steady_clock::now() < end;) {
      is_said = said.Has(words);
      const float one = 1;
      EXPECT_OF_C(kMillraceOk, millrace_get(manager, w, &value, 1, nullptr));
      EXPECT_OF_C(kMillraceOk, millrace_update(manager, w, &one, 1));
      EXPECT_OF_C(kMillraceOk, millrace_step(manager, 1, &steps_));
    }
    EXPECT_OF_C(kMillraceOk, millrace_collect(manager, w, &value, 1, nullptr));
    EXPECT_EQ(value, static_cast<float>(steps_)) << "each step counts once, however answers come";
    millrace_destroy(manager);
    millrace_set_log(nullptr, nullptr);
    return said.lines;
  }

  uint64_t steps_ = 0;
};

TEST_F(StraightAnswersInC, ComeByMutualTlsAndThroughKafkaWhereCertificatesDoNotFit) {
  for (const char* name : {"server", "trainer", "stranger"}) MakeCertificate(name);
  Answers& answers = *config_.mutable_answers();
  answers.set_way(Answers::DIRECT);
  answers.set_tls_cert(File("server.pem"));
  answers.set_tls_key(File("server.key"));
  answers.set_tls_ca(File("trainer.pem"));
  StartServer();
  const char* const straight = "answers come straight from 127.0.0.1:";
  const char* const refused = "no straight answers from 127.0.0.1:";
  EXPECT_THAT(TrainUntilSaid("trainer", "server", straight), HasSubstr(straight));
  for (const auto& [certificate, authority] :
       {std::pair("stranger", "server"), std::pair("trainer", "stranger")}) {
    const std::string said = TrainUntilSaid(certificate, authority, refused);
    EXPECT_THAT(said, HasSubstr(refused));
    EXPECT_THAT(said, HasSubstr("of a trainer of one's own answers_tls_cert and so on"));
    EXPECT_THAT(said, HasSubstr("They come through Kafka"));
  }
}

TEST_F(CCallsTest, ReadAndChangeRowsOfTables) {
  StartServer();
  MillraceManager* const manager = ConnectInC();
  int w = -1;
  int table = -1;
  EXPECT_OF_C(kMillraceOk, millrace_register(manager, "w", nullptr, 0, "add", 1, 1, &w));
  EXPECT_OF_C(kMillraceInvalidArgument,
              millrace_register_table(manager, "t", 0, "add", 1, 1, 0, &table));
  EXPECT_OF_C(kMillraceInvalidArgument,
              millrace_register_table(manager, nullptr, 2, "add", 1, 1, 0, &table));
  EXPECT_OF_C(kMillraceOk, millrace_register_table(manager, "t", 2, "add", 1, 1, 0, &table));
  EXPECT_EQ(table, 1);
  const std::array<uint64_t, 2> ids{3, 9};
  std::array<float, 4> rows{};
  uint64_t version = 7;
  EXPECT_OF_C(kMillraceInvalidArgument,
              millrace_get_rows(manager, w, ids.data(), 2, rows.data(), 4, nullptr));
  EXPECT_THAT(millrace_error(), HasSubstr("there is no table 0"));
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_get(manager, table, rows.data(), 4, nullptr));
  EXPECT_OF_C(kMillraceInvalidArgument,
              millrace_get_rows(manager, table, ids.data(), 2, rows.data(), 3, nullptr));
  EXPECT_THAT(millrace_error(),
              HasSubstr("the table t: 2 rows of width 2 have 4 values, and 3 are given"));
  EXPECT_OF_C(kMillraceInvalidArgument,
              millrace_get_rows(manager, table, nullptr, 2, rows.data(), 4, nullptr));
  EXPECT_OF_C(kMillraceOk,
              millrace_get_rows(manager, table, ids.data(), 2, rows.data(), 4, &version));
  EXPECT_THAT(rows, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(version, 0u);
  EXPECT_OF_C(kMillraceOk, millrace_want_rows(manager, table, ids.data(), 2));
  const std::array<float, 4> gradient{1, 2, 3, 4};
  EXPECT_OF_C(kMillraceInvalidArgument, millrace_update_rows(manager, table, gradient.data(), 2));
  EXPECT_OF_C(kMillraceOk, millrace_update_rows(manager, table, gradient.data(), 4));
  EXPECT_OF_C(kMillraceOk, millrace_step(manager, 1, nullptr));
  EXPECT_OF_C(kMillraceOk,
              millrace_collect_rows(manager, table, ids.data(), 2, rows.data(), 4, &version));
  EXPECT_THAT(rows, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(version, 1u);
  EXPECT_OF_C(kMillraceOk, millrace_leave(manager));
  millrace_destroy(manager);
}

}  // namespace
}  // namespace millrace
