#include "tests/client/client_fixture.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "apps/program.h"
#include "apps/publish_settings.h"
#include "job/job_registry.h"
#include "job/job_topics.h"
#include "server/server_loop.h"
#include "tasks/task_options.h"
#include "topics/most_workers.h"

namespace millrace {
namespace {

// What ServerApp does.
Status Serve(JobConfig config, const std::atomic<bool>& stop) {
  JobTopics topics(stop);
  MILLRACE_RETURN_IF_ERROR(topics.Prepare(config));
  MILLRACE_RETURN_IF_ERROR(topics.PrepareLayout(
      config, TopicSizesOf(config.training(), config.workers(), config.shards())));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobRegistry> registry,
                            JobRegistry::Create(config, stop));
  SetDefaults(*config.mutable_training());
  MILLRACE_ASSIGN_OR_RETURN(const JobFeatures features, registry->WaitForFeatures());
  MILLRACE_ASSIGN_OR_RETURN(const JobTraining training,
                            PublishSettings(config, features, "", *registry));
  return RunServer(config, features, training, *registry, topics, {}, {}, stop);
}

}  // namespace

ServerThread::ServerThread(const JobConfig& config)
    : thread_([this, config] { status_ = Serve(config, stop_); }) {}

Status ServerThread::Join() {
  if (thread_.joinable()) thread_.join();
  return status_;
}

Status ServerThread::Stop() {
  stop_ = true;
  const Status ended = Join();
  return absl::IsCancelled(ended) ? absl::OkStatus() : ended;
}

void ClientTest::SetUp() {
  [[maybe_unused]] static const bool once = (SetUpLogging(), true);
  const char* const brokers = std::getenv("MILLRACE_TEST_BROKERS");
  ASSERT_NE(brokers, nullptr) << "these tests need a real broker: MILLRACE_TEST_BROKERS=HOST:PORT";
  config_.set_brokers(brokers);
  std::string pattern = testing::TempDir() + "millrace_client_XXXXXX";
  folder_ = mkdtemp(pattern.data());
  NewJob(1, Training::Consistency::SEQUENTIAL);
}

void ClientTest::TearDown() {
  server_.reset();
  std::filesystem::remove_all(folder_);
}

void ClientTest::NewJob(uint32_t trainers, Training::Consistency::Model model) {
  server_.reset();
  static int count = 0;
  const std::string name = "client-" + folder_.filename().string() + "-" + std::to_string(count++);
  config_.set_name(name);
  config_.set_workers(trainers);
  config_.set_shards(2);
  config_.mutable_server()->set_data_dir(folder_ / name);
  config_.mutable_server()->set_checkpoint_interval_s(0.1);
  config_.mutable_training()->set_model(Training::EXTERNAL);
  config_.mutable_training()->mutable_consistency()->set_model(model);
}

Settings ClientTest::SettingsOf(uint32_t trainer) const {
  return {.brokers = config_.brokers(),
          .job = config_.name(),
          .trainers = config_.workers(),
          .trainer = trainer,
          .timeout_s = 60};
}

std::unique_ptr<ParameterManager> ClientTest::Connect(uint32_t trainer) {
  auto manager = ParameterManager::Connect(SettingsOf(trainer));
  EXPECT_TRUE(manager.ok()) << manager.status().message();
  return manager.ok() ? std::move(*manager) : nullptr;
}

ClientTest::Trainer ClientTest::Begin(uint32_t trainer, const std::vector<float>& values,
                                      const std::string& handler) {
  Trainer begun{.manager = Connect(trainer)};
  const auto w = begun.manager->Register({.name = "w", .shape = {5}, .handler = handler});
  EXPECT_TRUE(w.ok()) << w.status().message();
  begun.w = *w;
  if (!values.empty()) {
    std::ranges::copy(values, begun.w->data().begin());
    EXPECT_TRUE(begun.manager->Put(*begun.w).ok());
  }
  const auto steps = begun.manager->Steps();
  EXPECT_TRUE(steps.ok()) << steps.status().message();
  return begun;
}

void SetGrad(Param* param, float value) { std::ranges::fill(param->grad(), value); }

}  // namespace millrace
