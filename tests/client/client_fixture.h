// Jobs of trainers on a real broker, whose servers are threads of the test.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "messages/job.pb.h"
#include "millrace/parameter_manager.h"

namespace millrace {

using client::Code;
using client::Param;
using client::ParameterManager;
using client::ParamSpec;
using client::Settings;

// A server of all shards of a job.
class ServerThread {
 public:
  explicit ServerThread(const JobConfig& config);
  ~ServerThread() { (void)Stop(); }
  // Waits until the job has ended.
  Status Join();
  // OK, unless it had failed.
  Status Stop();

 private:
  std::atomic<bool> stop_ = false;
  Status status_;
  std::thread thread_;
};

class ClientTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Another job without servers, of this many trainers and two shards.
  void NewJob(uint32_t trainers, Training::Consistency::Model model);
  void StartServer() { server_ = std::make_unique<ServerThread>(config_); }

  Settings SettingsOf(uint32_t trainer) const;
  std::unique_ptr<ParameterManager> Connect(uint32_t trainer);
  // A manager with one parameter `w` of these values, which are put unless there are none.
  struct Trainer {
    std::unique_ptr<ParameterManager> manager;
    Param* w = nullptr;
  };
  Trainer Begin(uint32_t trainer, const std::vector<float>& values, const std::string& handler);

  JobConfig config_;
  std::filesystem::path folder_;
  std::unique_ptr<ServerThread> server_;
};

inline std::vector<float> ValuesOf(const Param* param) {
  return {param->data().begin(), param->data().end()};
}
void SetGrad(Param* param, float value);

// A status or a result with this code, whose message has these words.
#define EXPECT_FAILS(call, code_expected, words)                                      \
  do {                                                                                \
    const client::Status failed_ = ::millrace::StatusOfCall(call);                    \
    EXPECT_EQ(failed_.code(), code_expected) << failed_.message();                    \
    EXPECT_NE(failed_.message().find(words), std::string::npos) << failed_.message(); \
  } while (false)
#define ASSERT_WORKS(call)                                        \
  do {                                                            \
    const client::Status works_ = ::millrace::StatusOfCall(call); \
    ASSERT_TRUE(works_.ok()) << works_.message();                 \
  } while (false)

inline client::Status StatusOfCall(const client::Status& status) { return status; }
template <typename T>
client::Status StatusOfCall(const client::Result<T>& result) {
  return result.status();
}

}  // namespace millrace
