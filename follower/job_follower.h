// The model of a running job, as it learns.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.h"
#include "exports/model_scorer.h"
#include "follower/found_job.h"
#include "follower/freshness_probe.h"
#include "follower/job_reader.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "predictor/model_source.h"

namespace millrace {

// Reads the topics `job` and `weights`, or, of models with embedding rows, `parameters`; and some
// of `input-data`, on threads of its own. It sends nothing. It waits for a job that has not begun,
// for a broker, and for the job's first weights. From then on it has a model, whatever happens:
// while no newer weights come the last ones stay, and newer() and a log line say why. A job that is
// begun anew under the same name is followed from then on.
class JobFollower final : public ModelSource {
 public:
  static std::unique_ptr<JobFollower> Start(const JobConfig& config, CheckFoundJob check);
  // Takes a second at most, or as long as a call to a broker that does not answer.
  ~JobFollower() override;

  std::shared_ptr<const ModelScorer> model() const override;
  // Also an error, NotFound or Unavailable, as long as there is no model.
  Status newer() const override;
  // "ended", whether the job has, and "freshness" (Freshness::Json).
  std::string MoreJson() const override;

  // Why it has given up before it had a model: what waiting does not mend, or that no broker has
  // answered within broker_timeout_s. OK: it follows.
  Status failed() const;

 private:
  using Time = std::chrono::steady_clock::time_point;

  JobFollower(const JobConfig& config, CheckFoundJob check);

  void Run();
  Status WaitForBroker();
  // Follows the job that is there until something is otherwise than it was; returns what.
  Status Follow();
  void SetProbe(std::shared_ptr<FreshnessProbe> probe);
  Status Read(const FoundJob& job, JobReader& reader);
  // Makes a model of what was read.
  void Make(JobReader& reader);
  // Looks whether all is as it was, though nothing comes. True: no broker answers. An error: the
  // reader is of no more use.
  StatusOr<bool> LookAround(const FoundJob& job, JobReader& reader);
  void NoteSilence(Time last_record);
  void NoteEnd();
  // Says why there is nothing newer, once. OK: there is again.
  void Note(const Status& why);
  // Whether to go on after Follow has ended so.
  bool IsBearable(const Status& status) const;

  const JobConfig config_;
  const CheckFoundJob check_;
  Wakeup wakeup_;
  bool is_silent_ = false;        // and it was said; the thread's, as the next three
  Time::duration longest_gap_{};  // between two models
  bool feed_is_gone_ = false;     // of a job that has ended: its checkpoints are there
  std::string said_;

  mutable std::mutex mutex_;
  std::shared_ptr<const ModelScorer> model_;  // guarded by mutex_, as the next
  Status newer_;
  Status failed_;
  bool ended_ = false;
  std::shared_ptr<FreshnessProbe> probe_;  // of the job that is read; null: none is

  std::atomic<bool> ending_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace millrace
