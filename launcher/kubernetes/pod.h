// A pod as the API server shows it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "messages/master.pb.h"

namespace millrace {

// Of all objects of a job, and of its pods.
inline constexpr char kJobLabel[] = "millrace/job";  // PodNames::job_id
inline constexpr char kProcessLabel[] = "millrace/process";
inline constexpr char kIncarnationLabel[] = "millrace/incarnation";
// Without it a pod is scheduled: it is there until it is certain that the pod may begin.
inline constexpr char kGate[] = "millrace/start";
// Without it a deleted pod is gone: it is there until the master knows how the pod has ended.
inline constexpr char kFinalizer[] = "millrace/end";

// What the objects of a job are named. Another job, or epoch of it, has other names.
class PodNames {
 public:
  PodNames(std::string_view job, uint64_t epoch);

  const std::string& job_id() const { return job_id_; }
  std::string PodOf(const ProcessName& process, uint64_t incarnation) const;
  // Which incarnations are forgotten: a ConfigMap.
  std::string Record() const { return job_id_ + "-forgotten"; }
  // A file of settings: a Secret. REQUIRES IsSettingsFile(file).
  std::string SettingsOf(std::string_view file) const;
  // Such as "server-0a1b.textproto".
  static bool IsSettingsFile(std::string_view file);

 private:
  std::string job_id_;
};

struct Pod {
  enum class Stage {
    kWaiting,  // for its gate, for a node, or for its image
    kRunning,
    kEnded  // `end`; nothing of it runs
  };
  std::string name;
  std::string uid;
  ProcessName process;
  uint64_t incarnation = 0;
  bool is_gated = false;
  bool is_deleted = false;  // and there until it has ended, and until the finalizer is taken away
  Stage stage = Stage::kWaiting;
  ProcessEnd end{};
  // Why it waits, where that may last: "ErrImagePull: .."; empty: nothing is known to be wrong.
  std::string trouble{};
};

struct PodList {
  std::vector<Pod> pods;
  std::string version;  // of the list: where a watch begins
};

struct PodEvent {
  enum class Kind {
    kChanged,   // `pod`
    kRemoved,   // `pod`
    kBookmark,  // nothing has changed up to `version`
    kExpired,   // the watch cannot go on: its version is too old
    kError      // `error`
  };
  Kind kind = Kind::kError;
  Pod pod{};
  std::string version{};  // where a watch goes on
  std::string error{};
};

// Answers of the API server: a pod, a list of them, a line of a watch. Pods that have the job's
// label, but not the others, are left out of a list. FailedPrecondition: it is none of an API
// server.
StatusOr<Pod> ParsePod(std::string_view json);
StatusOr<PodList> ParsePodList(std::string_view json);
StatusOr<PodEvent> ParsePodEvent(std::string_view line);

// A ConfigMap, whose data are texts.
struct TextRecord {
  std::string version;
  std::vector<std::pair<std::string, std::string>> data;
};
StatusOr<TextRecord> ParseTextRecord(std::string_view json);

// The message in the body of an error, fit for a log; empty: there is none.
std::string ErrorMessage(std::string_view json);
// Its reason, such as "AlreadyExists".
std::string ErrorReason(std::string_view json);

}  // namespace millrace
