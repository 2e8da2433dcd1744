#include "launcher/kubernetes/kubernetes_launcher.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "topics/process_name.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kInsistSlice(100);
constexpr int kMostWrites = 10;  // of a record that others write, too

Status CheckOrder(const ProcessOrder& order) {
  MILLRACE_RETURN_IF_ERROR(CheckProcessName(order.process()));
  if (order.incarnation() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("an order for ", ToText(order.process()), " names no incarnation"));
}

std::string PathOf(const Pod& pod) { return "pods/" + pod.name; }

// An answer that means nothing here, such as 404 to a new pod: its namespace is gone.
Status Unexpected(const ApiServer& api, const HttpAnswer& answer, const char* to) {
  return absl::FailedPreconditionError(
      absl::StrCat("the Kubernetes API server answers with the status ", answer.status, " to ", to,
                   " in the namespace ", api.kube_namespace(), ": ", ErrorMessage(answer.body),
                   "; check --kubernetes-namespace"));
}

bool IsDone(const HttpAnswer& answer) { return answer.status >= 200 && answer.status < 300; }

}  // namespace

KubernetesLauncher::KubernetesLauncher(KubernetesLauncherOptions options)
    : options_(std::move(options)), names_(options_.pods.job, options_.pods.epoch) {}

StatusOr<std::unique_ptr<KubernetesLauncher>> KubernetesLauncher::Create(
    KubernetesLauncherOptions options, const std::atomic<bool>& stop) {
  std::unique_ptr<KubernetesLauncher> launcher(new KubernetesLauncher(std::move(options)));
  MILLRACE_RETURN_IF_ERROR(launcher->Open(stop));
  return launcher;
}

Status KubernetesLauncher::Open(const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(api_, ApiServer::Create(options_.api, nullptr));
  MILLRACE_RETURN_IF_ERROR(CheckTemplates());
  MILLRACE_RETURN_IF_ERROR(Insist([this] { return ReadRecord().status(); }, stop));
  MILLRACE_RETURN_IF_ERROR(Insist([this] { return PutSettings(); }, stop));
  PodWatch::Options watch;
  watch.api = options_.api;
  watch.api.has_been_away = api_->has_been_away();
  watch.job_id = names_.job_id();
  watch.on_change = options_.on_change;
  watch.say = options_.say;
  MILLRACE_ASSIGN_OR_RETURN(watch_, PodWatch::Create(std::move(watch)));
  return Resync(stop);
}

Status KubernetesLauncher::Resync(const std::atomic<bool>& stop) {
  return watch_->Resync([&stop] { return stop.load(); });
}

Status KubernetesLauncher::CheckTemplates() const {
  ProcessOrder order;
  order.mutable_process()->set_group("worker");
  order.set_incarnation(1);
  if (options_.pods.templates.empty()) {
    return PodManifest(options_.pods, names_, order).status();
  }
  for (const auto& [group, text] : options_.pods.templates) {
    order.mutable_process()->set_group(group);
    MILLRACE_RETURN_IF_ERROR(PodManifest(options_.pods, names_, order).status());
  }
  return absl::OkStatus();
}

Status KubernetesLauncher::PutSettings() {
  for (const auto& [file, text] : options_.settings) {
    MILLRACE_ASSIGN_OR_RETURN(const HttpAnswer answer,
                              api_->Ask("POST", "secrets", SettingsManifest(names_, file, text)));
    if (!IsDone(answer) && answer.status != 409) {
      return Unexpected(*api_, answer, "a new Secret");
    }
  }
  return absl::OkStatus();
}

// ---- an API server that may be away ----

Status KubernetesLauncher::Insist(const std::function<Status()>& call,
                                  const std::atomic<bool>& stop) {
  for (bool is_told = false;; is_told = true) {
    Status status = call();
    if (!IsAway(status)) return status;
    if (!is_told) options_.say(absl::StrCat(status.message(), "; waiting for it"));
    for (const auto until = Clock::now() + options_.away_pause; Clock::now() < until;) {
      if (stop) return absl::CancelledError("stopped");
      std::this_thread::sleep_for(kInsistSlice);
    }
  }
}

Status KubernetesLauncher::IfThere(const std::function<Status()>& call) {
  if (Clock::now() < away_until_) return absl::OkStatus();
  Status status = call();
  // A right, or room in a quota, may be given any time: processes that run need not suffer.
  if (!IsAway(status) && !absl::IsPermissionDenied(status)) {
    is_away_ = false;
    return status;
  }
  away_until_ = Clock::now() + options_.away_pause;
  if (!std::exchange(is_away_, true)) {
    options_.say(
        absl::StrCat(status.message(), ". Until this is mended, no process is started or stopped"));
  }
  return absl::OkStatus();
}

// ---- orders ----

Status KubernetesLauncher::Start(const ProcessOrder& order) {
  MILLRACE_RETURN_IF_ERROR(CheckOrder(order));
  if (order.command().empty() || order.command(0).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the order to start ", ToText(order.process()), " has no command"));
  }
  return IfThere([&]() -> Status {
    if (order.incarnation() < FirstKept(order.process())) {
      Pod pod;
      pod.process = order.process();
      pod.incarnation = order.incarnation();
      return Forgotten(pod);
    }
    MILLRACE_ASSIGN_OR_RETURN(const Pod pod, FindOrMake(order));
    return pod.is_gated && !pod.is_deleted ? OpenGate(pod) : absl::OkStatus();
  });
}

Status KubernetesLauncher::Forgotten(const Pod& pod) const {
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot start incarnation ", pod.incarnation, " of ", ToText(pod.process), ": the ConfigMap ",
      names_.Record(), " says that all its incarnations before ", FirstKept(pod.process),
      " have ended. If a newer MasterApp runs this job, stop this one; if the job's topics were "
      "deleted, begin a new job with another --job"));
}

StatusOr<Pod> KubernetesLauncher::FindOrMake(const ProcessOrder& order) {
  const std::string name = names_.PodOf(order.process(), order.incarnation());
  if (std::optional<Pod> pod = watch_->Find(name)) return *std::move(pod);
  MILLRACE_ASSIGN_OR_RETURN(const std::string manifest, PodManifest(options_.pods, names_, order));
  MILLRACE_ASSIGN_OR_RETURN(HttpAnswer answer, api_->Ask("POST", "pods", manifest));
  if (answer.status == 409) {
    // Another master has made it, or this one, whose answer was lost.
    MILLRACE_ASSIGN_OR_RETURN(answer, api_->Ask("GET", "pods/" + name));
    if (answer.status == 404) {
      return absl::UnavailableError("the API server said that the pod " + name +
                                    " exists, and then that it does not");
    }
  }
  if (!IsDone(answer)) return Unexpected(*api_, answer, "a new pod");
  MILLRACE_ASSIGN_OR_RETURN(Pod pod, ParsePod(answer.body));
  watch_->NoteMade(pod);
  return pod;
}

// The record is read after the pod was made: had the incarnation been forgotten before, as whoever
// took an earlier pod of this name away has noted, that is in it.
Status KubernetesLauncher::OpenGate(const Pod& pod) {
  MILLRACE_RETURN_IF_ERROR(ReadRecord().status());
  if (pod.incarnation < FirstKept(pod.process)) {
    MILLRACE_RETURN_IF_ERROR(Drop(pod));
    return Forgotten(pod);
  }
  MILLRACE_ASSIGN_OR_RETURN(const HttpAnswer answer,
                            api_->Ask("PATCH", PathOf(pod), OpenGatePatch(pod.uid)));
  if (IsDone(answer)) watch_->NoteGateIsOpen(pod);  // else it has just been taken away
  return absl::OkStatus();
}

Status KubernetesLauncher::Stop(const ProcessOrder& order) {
  MILLRACE_RETURN_IF_ERROR(CheckOrder(order));
  if (order.incarnation() < FirstKept(order.process())) return absl::OkStatus();
  return IfThere([&]() -> Status {
    ProcessOrder name_only = order;
    name_only.clear_command();
    MILLRACE_ASSIGN_OR_RETURN(const Pod pod, FindOrMake(name_only));
    if (pod.is_deleted || pod.stage == Pod::Stage::kEnded) return absl::OkStatus();
    return Delete(pod, options_.pods.grace_s);
  });
}

Status KubernetesLauncher::Delete(const Pod& pod, int64_t grace_s) {
  MILLRACE_ASSIGN_OR_RETURN(const HttpAnswer answer,
                            api_->Ask("DELETE", PathOf(pod), DeleteBody(pod.uid, grace_s)));
  // It is gone, or another one has its name, of which the watch tells.
  if (!IsDone(answer)) watch_->NoteRemoved(pod);
  return absl::OkStatus();
}

Status KubernetesLauncher::Drop(const Pod& pod) {
  if (pod.stage != Pod::Stage::kEnded) {
    return pod.is_deleted ? absl::OkStatus() : Delete(pod, options_.pods.grace_s);
  }
  MILLRACE_RETURN_IF_ERROR(api_->Ask("PATCH", PathOf(pod), DropFinalizerPatch(pod.uid)).status());
  MILLRACE_RETURN_IF_ERROR(Delete(pod, 0));
  watch_->NoteRemoved(pod);
  return absl::OkStatus();
}

Status KubernetesLauncher::Forget(const ProcessName& process, uint64_t before) {
  MILLRACE_RETURN_IF_ERROR(CheckProcessName(process));
  return IfThere([&]() -> Status {
    MILLRACE_RETURN_IF_ERROR(WriteRecord(ToText(process), before));
    for (const Pod& pod : watch_->Pods()) {
      const bool is_it = ToText(pod.process) == ToText(process) && pod.incarnation < before;
      if (is_it) MILLRACE_RETURN_IF_ERROR(Drop(pod));
    }
    return absl::OkStatus();
  });
}

StatusOr<std::vector<ProcessReport>> KubernetesLauncher::Look() {
  const std::vector<Pod> pods = watch_->Pods();
  TellTrouble(pods);
  const bool some_are_gated = std::ranges::any_of(
      pods, [](const Pod& pod) { return pod.is_gated && pod.stage != Pod::Stage::kEnded; });
  if (some_are_gated) {
    // One of them may have been made by a master that was killed before it saw that it must not be.
    MILLRACE_RETURN_IF_ERROR(IfThere([this] { return ReadRecord().status(); }));
  }
  std::vector<ProcessReport> reports;
  for (const Pod& pod : pods) {
    if (pod.incarnation < FirstKept(pod.process)) {
      MILLRACE_RETURN_IF_ERROR(IfThere([&] { return Drop(pod); }));
      continue;
    }
    if (pod.stage == Pod::Stage::kWaiting) continue;
    ProcessReport& report = reports.emplace_back();
    *report.mutable_process() = pod.process;
    report.set_incarnation(pod.incarnation);
    if (pod.stage == Pod::Stage::kEnded) *report.mutable_end() = pod.end;
  }
  return reports;
}

// Once for each, as long as its pod is there.
void KubernetesLauncher::TellTrouble(const std::vector<Pod>& pods) {
  std::set<std::string> present;
  for (const Pod& pod : pods) {
    if (pod.trouble.empty()) continue;
    // The reason alone tells one from another: messages count, or name times.
    const std::string key =
        absl::StrCat(pod.name, " ", pod.trouble.substr(0, pod.trouble.find(':')));
    present.insert(key);
    if (!troubles_.contains(key)) {
      options_.say(absl::StrCat(ToText(pod.process), " cannot begin yet, its pod ", pod.name,
                                " waits: ", pod.trouble));
    }
  }
  troubles_ = std::move(present);
}

// ---- which incarnations are forgotten ----

uint64_t KubernetesLauncher::FirstKept(const ProcessName& process) const {
  const auto entry = first_kept_.find(ToText(process));
  return entry == first_kept_.end() ? 0 : entry->second;
}

StatusOr<TextRecord> KubernetesLauncher::ReadRecord() {
  MILLRACE_ASSIGN_OR_RETURN(const HttpAnswer answer,
                            api_->Ask("GET", "configmaps/" + names_.Record()));
  if (answer.status == 404) return TextRecord();
  if (!IsDone(answer)) return Unexpected(*api_, answer, "GET of a ConfigMap");
  MILLRACE_ASSIGN_OR_RETURN(TextRecord record, ParseTextRecord(answer.body));
  for (const auto& [process, text] : record.data) {
    uint64_t first = 0;
    if (!absl::SimpleAtoi(text, &first)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the ConfigMap ", names_.Record(), " in the namespace ", api_->kube_namespace(),
          " is not as it was written; delete it when no pod of this job is there"));
    }
    uint64_t& known = first_kept_[process];
    known = std::max(known, first);
  }
  return record;
}

Status KubernetesLauncher::WriteRecord(const std::string& process, uint64_t first) {
  for (int i = 0; i < kMostWrites; ++i) {
    if (first_kept_[process] >= first) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(TextRecord record, ReadRecord());
    if (first_kept_[process] >= first) return absl::OkStatus();
    std::erase_if(record.data, [&](const auto& entry) { return entry.first == process; });
    record.data.emplace_back(process, absl::StrCat(first));
    const bool is_new = record.version.empty();
    MILLRACE_ASSIGN_OR_RETURN(
        const HttpAnswer answer,
        api_->Ask(is_new ? "POST" : "PUT", is_new ? "configmaps" : "configmaps/" + names_.Record(),
                  RecordManifest(names_, record)));
    if (IsDone(answer)) {
      first_kept_[process] = first;
      return absl::OkStatus();
    }
    if (is_new && answer.status == 404) return Unexpected(*api_, answer, "a new ConfigMap");
  }
  return absl::UnavailableError(absl::StrCat(
      "the ConfigMap ", names_.Record(), " was changed by another client during each of ",
      kMostWrites, " updates: check that only one MasterApp runs this job"));
}

}  // namespace millrace
