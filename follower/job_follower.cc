#include "follower/job_follower.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "follower/checkpoint_reader.h"
#include "follower/feed_reader.h"
#include "follower/job_model.h"
#include "job/kafka_options.h"
#include "kafka/admin.h"
#include "kafka/brokers_text.h"
#include "kafka/timeouts.h"
#include "predictor/model_age.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// Of a burst of records one model is made.
constexpr milliseconds kModelEvery(5);
constexpr milliseconds kAgain(500);
// When nothing comes: after so long Kafka and the job are looked at, and again and again.
constexpr seconds kLookAfter(2);
constexpr seconds kLookEvery(5);
// After so long it is said.
constexpr seconds kSilence(30);

}  // namespace

JobFollower::JobFollower(const JobConfig& config, CheckFoundJob check)
    : config_(config),
      check_(std::move(check)),
      newer_(absl::UnavailableError("Kafka at " + BrokersText(config.brokers()) +
                                    " has not answered yet")) {}

std::unique_ptr<JobFollower> JobFollower::Start(const JobConfig& config, CheckFoundJob check) {
  std::unique_ptr<JobFollower> follower(new JobFollower(config, std::move(check)));
  follower->thread_ = std::thread([raw = follower.get()] { raw->Run(); });
  return follower;
}

JobFollower::~JobFollower() {
  ending_ = true;
  wakeup_.Notify();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const ModelScorer> JobFollower::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

Status JobFollower::newer() const {
  const std::lock_guard lock(mutex_);
  return newer_;
}

Status JobFollower::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

std::string JobFollower::MoreJson() const {
  const std::lock_guard lock(mutex_);
  return std::string(",\"ended\":") + (ended_ ? "true" : "false") +
         ",\"freshness\":" + (probe_ != nullptr ? probe_->Json() : "null");
}

void JobFollower::Run() {
  Status status = WaitForBroker();
  while (status.ok() && !ending_) {
    status = Follow();
    if (ending_ || !IsBearable(status)) break;
    Note(status);
    wakeup_.WaitFor(kAgain);
    status = absl::OkStatus();
  }
  const std::lock_guard lock(mutex_);
  failed_ = newer_ = status;
}

// It keeps the time limit, and says what it waits for.
Status JobFollower::WaitForBroker() {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<KafkaAdmin> admin,
                            KafkaAdmin::Create(ToKafkaOptions(config_), "predictor"));
  return admin->WaitForBroker([this] { return ending_.load(); });
}

bool JobFollower::IsBearable(const Status& status) const {
  return model() != nullptr || absl::IsNotFound(status) || absl::IsAborted(status) ||
         IsAway(status);
}

Status JobFollower::Follow() {
  MILLRACE_ASSIGN_OR_RETURN(const FoundJob job, FindJob(config_, check_, ending_));
  MILLRACE_ASSIGN_OR_RETURN(JobModel model, JobModel::Create(job.features, job.training));
  const bool by_checkpoints = model.model().row_width() > 0 || (feed_is_gone_ && job.ended);
  const JobReader::OnCounted on_counted = [this](WorkerId worker, RowNumber end, int64_t sent_ms) {
    probe_->NoteCounted(worker, end, sent_ms);
  };
  JobConfig of_layout = config_;
  of_layout.set_layout(job.training.layout());
  StatusOr<std::unique_ptr<JobReader>> opened =
      by_checkpoints
          ? CheckpointReader::Open(of_layout, job, std::move(model), on_counted, &wakeup_, ending_)
          : FeedReader::Open(of_layout, job, std::move(model), on_counted, &wakeup_);
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobReader> reader, std::move(opened));
  SetProbe(std::make_shared<FreshnessProbe>(of_layout, job, !by_checkpoints));
  Status status = Read(job, *reader);
  SetProbe(nullptr);
  return status;
}

void JobFollower::SetProbe(std::shared_ptr<FreshnessProbe> probe) {
  {
    const std::lock_guard lock(mutex_);
    ended_ = false;
    probe_.swap(probe);
  }
  probe.reset();  // its thread is waited for
}

Status JobFollower::Read(const FoundJob& job, JobReader& reader) {
  Time last_record = steady_clock::now();
  Time next_model = last_record;
  Time next_look = last_record;
  bool is_away = false;  // no broker answers
  while (!ending_) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, reader.Poll());
    const Time now = steady_clock::now();
    if (reader.has_news() && now >= next_model) {
      Make(reader);
      // Of a large model that takes a while.
      next_model = now + std::max<Time::duration>(kModelEvery, 4 * (steady_clock::now() - now));
      longest_gap_ = std::max(longest_gap_, now - last_record);
      last_record = now;
      is_away = is_silent_ = false;
    }
    if (events > 0) continue;
    const std::string missing = reader.WhatIsMissing();
    if (!missing.empty() && job.ended && !std::exchange(feed_is_gone_, true)) {
      return absl::AbortedError(missing + "; its checkpoints are read");
    }
    if (!missing.empty() && !is_away) Note(absl::NotFoundError(missing));
    if (now - last_record >= kLookAfter && now >= next_look) {
      MILLRACE_ASSIGN_OR_RETURN(is_away, LookAround(job, reader));
      next_look = steady_clock::now() + kLookEvery;
      if (!reader.has_news()) NoteSilence(last_record);
    }
    wakeup_.WaitFor(reader.has_news() ? kModelEvery : kPoll);
  }
  return absl::CancelledError("stopped");
}

void JobFollower::Make(JobReader& reader) {
  StatusOr<ExportedModel> made = reader.ToModel();
  if (!made.ok()) return Note(made.status());
  auto model = std::make_shared<const ModelScorer>(*std::move(made));
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = model_ == nullptr;
    model_ = std::move(model);
    newer_ = absl::OkStatus();  // with the model: who sees it may ask at once
  }
  probe_->NoteModel(reader.sent_ms());
  if (is_first) {
    said_.clear();
    spdlog::info("the first weights of the job {} are there", config_.name());
  }
  Note(absl::OkStatus());
}

StatusOr<bool> JobFollower::LookAround(const FoundJob& job, JobReader& reader) {
  const Status answer = reader.Look(kFollowerLook);
  const StatusOr<FoundJob> found =
      answer.ok() ? FindJob(config_, check_, ending_) : StatusOr<FoundJob>(answer);
  if (IsAway(found.status())) {
    Note(found.status());
    return true;  // the reader goes on by itself
  }
  MILLRACE_RETURN_IF_ERROR(found.status());
  if (!found->IsSame(job)) {
    return absl::AbortedError("the job " + config_.name() + " has been begun anew");
  }
  if (IsAway(newer())) Note(absl::OkStatus());
  if (found->ended) NoteEnd();
  return false;
}

void JobFollower::NoteEnd() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(ended_, true) || model_ == nullptr) return;
  spdlog::info("the job {} has ended; its last weights predict", config_.name());
}

void JobFollower::NoteSilence(Time last_record) {
  const auto silent = steady_clock::now() - last_record;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || model_ == nullptr || !newer_.ok()) return;
  }
  // (Checkpoints may come more rarely.)
  const auto usual = std::max<Time::duration>(kSilence, 3 * longest_gap_);
  if (silent < usual || std::exchange(is_silent_, true)) return;
  spdlog::warn(
      "no newer weights for {} s: no rows come, or servers or workers of the job {} are away; the "
      "last weights predict",
      std::chrono::duration_cast<seconds>(silent).count(), config_.name());
}

void JobFollower::Note(const Status& why) {
  const std::string text(TextOf(why));
  {
    const std::lock_guard lock(mutex_);
    newer_ = why;
  }
  if (text == said_) return;
  said_ = text;
  const std::shared_ptr<const ModelScorer> last = model();
  if (last == nullptr) {
    spdlog::info("waiting: {}", text);
  } else if (why.ok()) {
    spdlog::info("newer weights can be had again");
  } else {
    spdlog::warn("the last weights, {:.0f} s old, predict: {}",
                 AgeSeconds(last->model().description), text);
  }
}

}  // namespace millrace
