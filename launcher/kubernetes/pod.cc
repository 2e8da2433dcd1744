#include "launcher/kubernetes/pod.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "base/printable.h"
#include "launcher/incarnation_folder.h"
#include "topics/process_name.h"

namespace millrace {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostJobNameBytes = 20;  // in names
constexpr char kSettingsEnding[] = ".textproto";
constexpr size_t kMostDetailBytes = 2'000;
constexpr int kMostSignal = 64;
// 128 + a signal is how a container's runtime says that its process died of it.
constexpr int kSignalBase = 128;
constexpr int kExitBySignal = 130;  // a program of this project that was asked to end (program.h)

bool IsLowerOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// ---- parts of an object; null and empty where they are not there, or of another type ----

const Json* At(const Json& object, std::initializer_list<const char*> path) {
  const Json* part = &object;
  for (const char* const key : path) {
    if (!part->is_object()) return nullptr;
    const auto entry = part->find(key);
    if (entry == part->end()) return nullptr;
    part = &*entry;
  }
  return part;
}

std::string TextAt(const Json& object, std::initializer_list<const char*> path) {
  const Json* const part = At(object, path);
  const auto* const text = part == nullptr ? nullptr : part->get_ptr<const std::string*>();
  return text == nullptr ? "" : *text;
}

// -1: there is none.
int64_t NumberAt(const Json& object, std::initializer_list<const char*> path) {
  const Json* const part = At(object, path);
  return part != nullptr && part->is_number_integer() ? part->get<int64_t>() : -1;
}

// The elements of a list of objects.
std::vector<const Json*> ObjectsAt(const Json& object, std::initializer_list<const char*> path) {
  std::vector<const Json*> objects;
  const Json* const part = At(object, path);
  if (part == nullptr || !part->is_array()) return objects;
  for (const Json& element : *part) {
    if (element.is_object()) objects.push_back(&element);
  }
  return objects;
}

const Json* FindNamed(const std::vector<const Json*>& objects, const char* key,
                      const std::string& value) {
  for (const Json* const object : objects) {
    if (TextAt(*object, {key}) == value) return object;
  }
  return nullptr;
}

Status NoAnswer(std::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("the response is not a valid ", std::string(what),
                   ": --kubernetes-api is not the address of a Kubernetes API server, or a proxy "
                   "in between has answered"));
}

StatusOr<Json> ParseObject(std::string_view text, std::string_view what) {
  Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return NoAnswer(what);
  return object;
}

// ---- how a pod stands ----

std::string Joined(const std::string& reason, const std::string& message) {
  std::string text = reason;
  if (!message.empty()) absl::StrAppend(&text, text.empty() ? "" : ": ", message);
  if (text.size() > kMostDetailBytes) text.resize(kMostDetailBytes);
  return text;
}

ProcessEnd End(ProcessEnd::Cause cause, int code, std::string detail) {
  ProcessEnd end;
  end.set_cause(cause);
  end.set_code(code);
  end.set_detail(std::move(detail));
  return end;
}

// That of the first container; null: its runtime has said nothing yet.
const Json* MainStatus(const Json& pod) {
  const std::vector<const Json*> containers = ObjectsAt(pod, {"spec", "containers"});
  if (containers.empty()) return nullptr;
  return FindNamed(ObjectsAt(pod, {"status", "containerStatuses"}), "name",
                   TextAt(*containers.front(), {"name"}));
}

// The reason of whoever took the pod away from its process; empty: nobody has.
std::string Disruption(const Json& pod) {
  const Json* const condition =
      FindNamed(ObjectsAt(pod, {"status", "conditions"}), "type", "DisruptionTarget");
  if (condition != nullptr && TextAt(*condition, {"status"}) == "True") {
    return Joined(TextAt(*condition, {"reason"}), TextAt(*condition, {"message"}));
  }
  return Joined(TextAt(pod, {"status", "reason"}), TextAt(pod, {"status", "message"}));
}

ProcessEnd HowItEnded(const Json& pod) {
  const Json* const status = MainStatus(pod);
  const Json* const ended = status == nullptr ? nullptr : At(*status, {"state", "terminated"});
  const int64_t code = ended == nullptr ? -1 : NumberAt(*ended, {"exitCode"});
  const std::string disruption = Disruption(pod);
  if (code < 0 || code > 255) {
    return End(ProcessEnd::UNKNOWN, 0,
               disruption.empty() ? "the pod has no status of its container" : disruption);
  }
  const int exit_code = static_cast<int>(code);
  const std::string reason = TextAt(*ended, {"reason"});
  const std::string message = TextAt(*ended, {"message"});
  if (exit_code == 0) return End(ProcessEnd::EXITED, 0, "");
  if (!disruption.empty()) return End(ProcessEnd::UNKNOWN, 0, disruption);
  if (reason == "OOMKilled") {
    return End(ProcessEnd::OUT_OF_MEMORY, 0, "raise the memory limit of its container");
  }
  if (reason == "ContainerStatusUnknown") {
    return End(ProcessEnd::UNKNOWN, 0, Joined(reason, message));
  }
  if (reason == "StartError" || reason == "ContainerCannotRun") {
    return End(ProcessEnd::NOT_STARTED, 0, Joined("", message));
  }
  const int64_t signal = NumberAt(*ended, {"signal"});
  if (signal > 0 && signal <= kMostSignal) {
    return End(ProcessEnd::SIGNALED, static_cast<int>(signal), Joined("", message));
  }
  if (exit_code > kSignalBase && exit_code <= kSignalBase + kMostSignal &&
      exit_code != kExitBySignal) {
    return End(ProcessEnd::SIGNALED, exit_code - kSignalBase, Joined("", message));
  }
  return End(ProcessEnd::EXITED, exit_code, Joined("", message));
}

std::string TroubleOf(const Json& pod) {
  const Json* const status = MainStatus(pod);
  const Json* const waiting = status == nullptr ? nullptr : At(*status, {"state", "waiting"});
  if (waiting != nullptr) {
    const std::string reason = TextAt(*waiting, {"reason"});
    if (reason != "ContainerCreating" && reason != "PodInitializing") {
      return Joined(reason, TextAt(*waiting, {"message"}));
    }
  }
  const Json* const scheduled =
      FindNamed(ObjectsAt(pod, {"status", "conditions"}), "type", "PodScheduled");
  if (scheduled == nullptr || TextAt(*scheduled, {"reason"}) != "Unschedulable") return "";
  return Joined("Unschedulable", TextAt(*scheduled, {"message"}));
}

void SetStage(const Json& json, Pod& pod) {
  const std::string phase = TextAt(json, {"status", "phase"});
  const bool has_ended = phase == "Succeeded" || phase == "Failed";
  const bool is_bound = !TextAt(json, {"spec", "nodeName"}).empty();
  // With a grace period of 0 its node has ended it, or whoever deleted it vouches for that.
  const bool is_gone =
      pod.is_deleted && NumberAt(json, {"metadata", "deletionGracePeriodSeconds"}) == 0;
  pod.stage = Pod::Stage::kEnded;
  if (!has_ended && pod.is_deleted && !is_bound) {
    pod.end = EndOfNotBegun();
  } else if (has_ended || is_gone) {
    pod.end = HowItEnded(json);
  } else {
    pod.stage = phase == "Running" ? Pod::Stage::kRunning : Pod::Stage::kWaiting;
    if (pod.stage == Pod::Stage::kWaiting && !pod.is_gated) pod.trouble = TroubleOf(json);
  }
}

std::optional<uint64_t> ParseLabelNumber(const std::string& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || absl::StrCat(number) != text) return std::nullopt;
  return number;
}

// Empty: it is no pod of a process.
std::optional<Pod> ToPod(const Json& json) {
  Pod pod;
  pod.name = TextAt(json, {"metadata", "name"});
  pod.uid = TextAt(json, {"metadata", "uid"});
  const StatusOr<ProcessName> process =
      ParseProcessName(TextAt(json, {"metadata", "labels", kProcessLabel}));
  const std::optional<uint64_t> incarnation =
      ParseLabelNumber(TextAt(json, {"metadata", "labels", kIncarnationLabel}));
  if (pod.name.empty() || pod.uid.empty() || !process.ok() || incarnation.value_or(0) == 0) {
    return std::nullopt;
  }
  pod.process = *process;
  pod.incarnation = *incarnation;
  pod.is_gated = FindNamed(ObjectsAt(json, {"spec", "schedulingGates"}), "name", kGate) != nullptr;
  pod.is_deleted = At(json, {"metadata", "deletionTimestamp"}) != nullptr;
  SetStage(json, pod);
  return pod;
}

}  // namespace

// ---- names ----

PodNames::PodNames(std::string_view job, uint64_t epoch) {
  for (const char c : job.substr(0, kMostJobNameBytes)) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    job_id_ += IsLowerOrDigit(lower) ? lower : '-';
  }
  job_id_.erase(0, job_id_.find_first_not_of('-'));
  // Names that were cut or changed above are told apart.
  const uint64_t hash = Fnv1a64(absl::StrCat(std::string(job), "\n", epoch));
  absl::StrAppend(&job_id_, job_id_.empty() ? "job-" : "-",
                  absl::Hex(Mix64(hash), absl::kZeroPad16));
}

std::string PodNames::PodOf(const ProcessName& process, uint64_t incarnation) const {
  return absl::StrCat(job_id_, "-", ToText(process), "-", incarnation);
}

std::string PodNames::SettingsOf(std::string_view file) const {
  return absl::StrCat(job_id_, "-",
                      std::string(file.substr(0, file.size() - (sizeof(kSettingsEnding) - 1))));
}

bool PodNames::IsSettingsFile(std::string_view file) {
  if (!file.ends_with(kSettingsEnding)) return false;
  file.remove_suffix(sizeof(kSettingsEnding) - 1);
  return !file.empty() && file.size() <= 100 && IsLowerOrDigit(file.back()) &&
         std::ranges::all_of(file, [](char c) { return IsLowerOrDigit(c) || c == '-'; });
}

// ---- answers ----

StatusOr<Pod> ParsePod(std::string_view json) {
  MILLRACE_ASSIGN_OR_RETURN(const Json object, ParseObject(json, "pod"));
  std::optional<Pod> pod = ToPod(object);
  if (!pod) return NoAnswer("pod of a process");
  return *std::move(pod);
}

StatusOr<PodList> ParsePodList(std::string_view json) {
  MILLRACE_ASSIGN_OR_RETURN(const Json object, ParseObject(json, "list of pods"));
  PodList list;
  list.version = TextAt(object, {"metadata", "resourceVersion"});
  if (list.version.empty() || TextAt(object, {"kind"}) != "PodList") {
    return NoAnswer("list of pods");
  }
  for (const Json* const item : ObjectsAt(object, {"items"})) {
    if (std::optional<Pod> pod = ToPod(*item)) list.pods.push_back(*std::move(pod));
  }
  return list;
}

StatusOr<PodEvent> ParsePodEvent(std::string_view line) {
  constexpr int64_t kGone = 410;
  MILLRACE_ASSIGN_OR_RETURN(const Json object, ParseObject(line, "event of a watch"));
  const std::string type = TextAt(object, {"type"});
  const Json* const what = At(object, {"object"});
  if (what == nullptr) return NoAnswer("event of a watch");
  PodEvent event;
  if (type == "ERROR") {
    const bool is_expired = NumberAt(*what, {"code"}) == kGone;
    event.kind = is_expired ? PodEvent::Kind::kExpired : PodEvent::Kind::kError;
    event.error = Printable(TextAt(*what, {"message"}));
    return event;
  }
  event.version = TextAt(*what, {"metadata", "resourceVersion"});
  if (event.version.empty()) return NoAnswer("event of a watch");
  event.kind = PodEvent::Kind::kBookmark;
  if (type == "BOOKMARK") return event;
  if (type != "ADDED" && type != "MODIFIED" && type != "DELETED") {
    return NoAnswer("event of a watch");
  }
  std::optional<Pod> pod = ToPod(*what);
  if (!pod) return event;  // of no process
  event.kind = type == "DELETED" ? PodEvent::Kind::kRemoved : PodEvent::Kind::kChanged;
  event.pod = *std::move(pod);
  return event;
}

StatusOr<TextRecord> ParseTextRecord(std::string_view json) {
  MILLRACE_ASSIGN_OR_RETURN(const Json object, ParseObject(json, "ConfigMap"));
  TextRecord record;
  record.version = TextAt(object, {"metadata", "resourceVersion"});
  if (record.version.empty()) return NoAnswer("ConfigMap");
  const Json* const data = At(object, {"data"});
  if (data == nullptr || !data->is_object()) return record;
  for (const auto& [key, value] : data->items()) {
    const auto* const text = value.get_ptr<const std::string*>();
    if (text != nullptr) record.data.emplace_back(key, *text);
  }
  return record;
}

std::string ErrorMessage(std::string_view json) {
  const Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  return Printable(TextAt(object, {"message"}), 1'000);
}

std::string ErrorReason(std::string_view json) {
  const Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  return TextAt(object, {"reason"});
}

}  // namespace millrace
