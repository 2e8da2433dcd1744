#include "launcher/kubernetes/pod_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr std::chrono::milliseconds kFirstPause(100);
constexpr std::chrono::milliseconds kMostPause(5'000);
constexpr std::chrono::milliseconds kWatchSlice(100);

// The pods of the job. A slash and a sign of equality in a query are escaped.
std::string Selector(const std::string& job_id) {
  return absl::StrCat("pods?labelSelector=millrace%2Fjob%3D", job_id);
}

}  // namespace

StatusOr<std::unique_ptr<PodWatch>> PodWatch::Create(Options options) {
  std::unique_ptr<PodWatch> watch(new PodWatch(std::move(options)));
  MILLRACE_ASSIGN_OR_RETURN(
      watch->api_,
      ApiServer::Create(watch->options_.api, [raw = watch.get()] { return raw->IsInterrupted(); }));
  watch->thread_ = std::thread([raw = watch.get()] { raw->Run(); });
  return watch;
}

PodWatch::~PodWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// ---- for others ----

Status PodWatch::Resync(const std::function<bool()>& is_cancelled) {
  std::unique_lock lock(mutex_);
  const uint64_t wanted = ++wanted_;
  changed_.notify_all();
  while (listed_ < wanted) {
    if (failed_ >= wanted) return failure_;
    if (is_cancelled()) return absl::CancelledError("stopped");
    changed_.wait_for(lock, kWatchSlice);
  }
  return absl::OkStatus();
}

std::vector<Pod> PodWatch::Pods() const {
  const std::lock_guard lock(mutex_);
  std::vector<Pod> pods;
  for (const auto& [name, pod] : pods_) pods.push_back(pod);
  return pods;
}

std::optional<Pod> PodWatch::Find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto entry = pods_.find(name);
  return entry == pods_.end() ? std::nullopt : std::optional<Pod>(entry->second);
}

void PodWatch::NoteMade(const Pod& pod) {
  const std::lock_guard lock(mutex_);
  pods_.try_emplace(pod.name, pod);
}

void PodWatch::NoteGateIsOpen(const Pod& pod) {
  const std::lock_guard lock(mutex_);
  const auto entry = pods_.find(pod.name);
  if (entry != pods_.end() && entry->second.uid == pod.uid) entry->second.is_gated = false;
}

void PodWatch::NoteRemoved(const Pod& pod) {
  const std::lock_guard lock(mutex_);
  const auto entry = pods_.find(pod.name);
  if (entry != pods_.end() && entry->second.uid == pod.uid) pods_.erase(entry);
}

// ---- the thread ----

// A request that is under way ends when the thread is to, or another list is wanted.
bool PodWatch::IsInterrupted() const {
  const std::lock_guard lock(mutex_);
  return is_ending_ || wanted_ > begun_;
}

void PodWatch::Run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (is_ending_) return;
      begun_ = wanted_;
    }
    StatusOr<std::string> version = List();
    if (version.ok()) {
      options_.on_change();
      WatchOn(*std::move(version));
    } else {
      Failed(version.status());
    }
  }
}

// Without a version the list is as new as what was written before it was asked for.
StatusOr<std::string> PodWatch::List() {
  MILLRACE_ASSIGN_OR_RETURN(const HttpAnswer answer, api_->Ask("GET", Selector(options_.job_id)));
  if (answer.status != 200) {
    return absl::FailedPreconditionError(
        absl::StrCat("the Kubernetes API server answers with the status ", answer.status,
                     " to a list of pods; check --kubernetes-api and --kubernetes-namespace"));
  }
  MILLRACE_ASSIGN_OR_RETURN(PodList list, ParsePodList(answer.body));
  const std::lock_guard lock(mutex_);
  pods_.clear();
  for (Pod& pod : list.pods) {
    std::string name = pod.name;
    pods_[std::move(name)] = std::move(pod);
  }
  listed_ = begun_;
  changed_.notify_all();
  return std::move(list.version);
}

void PodWatch::WatchOn(std::string version) {
  while (!IsInterrupted()) {
    bool is_expired = false;
    const Status status =
        api_->Watch(absl::StrCat(Selector(options_.job_id), "&resourceVersion=", version),
                    [&](std::string_view line) { return Take(line, version, is_expired); });
    if (!status.ok() && !absl::IsCancelled(status) && !absl::IsOutOfRange(status)) {
      Failed(status);
      if (!IsAway(status)) return;
    }
    if (status.ok()) Succeeded();
    Pause(kFirstPause);  // a server that ends each watch at once is not asked without end
    if (is_expired || absl::IsOutOfRange(status)) return;
  }
}

void PodWatch::Pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return is_ending_ || wanted_ > begun_; });
}

bool PodWatch::Take(std::string_view line, std::string& version, bool& is_expired) {
  const StatusOr<PodEvent> event = ParsePodEvent(line);
  if (!event.ok() || event->kind == PodEvent::Kind::kError ||
      event->kind == PodEvent::Kind::kExpired) {
    // After an error nothing is known of where the watch stands: a list tells.
    is_expired = true;
    return false;
  }
  Succeeded();
  version = event->version;
  if (event->kind == PodEvent::Kind::kBookmark) return true;
  if (event->kind == PodEvent::Kind::kRemoved) {
    NoteRemoved(event->pod);
  } else {
    const std::lock_guard lock(mutex_);
    pods_[event->pod.name] = event->pod;
  }
  options_.on_change();
  return true;
}

void PodWatch::Failed(const Status& status) {
  if (absl::IsCancelled(status)) return;
  if (failures_ == 0) {
    options_.say(absl::StrCat(
        status.message(), ". Until this is mended, MasterApp does not notice processes that end"));
  }
  if (!IsAway(status)) {
    const std::lock_guard lock(mutex_);
    failed_ = begun_;
    failure_ = status;
    changed_.notify_all();
  }
  Pause(std::min(kMostPause, kFirstPause * (1 << std::min(failures_, 10))));
  ++failures_;
}

void PodWatch::Succeeded() {
  if (failures_ > 0) options_.say("the Kubernetes API server answers again");
  failures_ = 0;
}

}  // namespace millrace
