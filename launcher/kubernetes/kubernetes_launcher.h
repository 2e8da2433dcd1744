// The launcher of a Kubernetes cluster: a pod for each incarnation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcher/kubernetes/api_server.h"
#include "launcher/kubernetes/pod.h"
#include "launcher/kubernetes/pod_manifest.h"
#include "launcher/kubernetes/pod_watch.h"
#include "launcher/launcher.h"
#include "messages/master.pb.h"

namespace millrace {

struct KubernetesLauncherOptions {
  ApiServerOptions api;
  PodManifestOptions pods;
  // Files of settings that commands name, PodManifestOptions.folder/config/NAME, by their names.
  // Each name has one content for ever.
  std::map<std::string, std::string> settings;
  // Called by a thread of the launcher when Look may show something new.
  std::function<void()> on_change;
  std::function<void(const std::string& line)> say;  // a line for the log; by any thread
  std::chrono::milliseconds away_pause{1'000};  // before an API server that is away is asked again
};

// What it knows stands in the cluster, in objects with the job's label:
//
//   Pod JOB-worker-2-5      an incarnation. It is made with a gate, so that nothing of it runs yet;
//                           the gate is opened when the incarnation is known not to be forgotten.
//                           A finalizer keeps it, whoever deletes it, until its end is noted
//   ConfigMap JOB-forgotten per process, the first incarnation that is not forgotten. It is written
//                           before pods are taken away, so who makes one of the same name again, an
//                           older master, finds it there before the gate is opened
//   Secret JOB-server-0a1b  a file of settings
//
// So two launchers of the same job start nothing twice, and what a launcher has not done when it is
// killed, the next one does when it is told the same. What an API server that is away cannot be
// told is left undone, without an error: orders are repeated until their effect is seen. Used by
// one thread.
class KubernetesLauncher final : public Launcher {
 public:
  // Waits for an API server that is away, until `stop` (Cancelled). Errors are those of
  // ApiServer::Create and ApiServer::Ask, and of PodManifest.
  static StatusOr<std::unique_ptr<KubernetesLauncher>> Create(KubernetesLauncherOptions options,
                                                              const std::atomic<bool>& stop);
  // What it has started goes on.
  ~KubernetesLauncher() override = default;

  // InvalidArgument: a name or incarnation that cannot be, or the cluster refuses such a pod.
  // FailedPrecondition: the incarnation is forgotten: this is not the newest master.
  Status Start(const ProcessOrder& order) override;
  Status Stop(const ProcessOrder& order) override;
  StatusOr<std::vector<ProcessReport>> Look() override;
  // What should still run of them is stopped.
  Status Forget(const ProcessName& process, uint64_t before) override;
  Status Resync(const std::atomic<bool>& stop) override;

  // The value of kJobLabel, and where the pods are.
  const std::string& job_id() const { return names_.job_id(); }
  const std::string& kube_namespace() const { return api_->kube_namespace(); }

 private:
  explicit KubernetesLauncher(KubernetesLauncherOptions options);

  Status Open(const std::atomic<bool>& stop);
  // Whether pods can be made of what is known before the API server is asked.
  Status CheckTemplates() const;
  Status PutSettings();
  // Calls it until the API server is there.
  Status Insist(const std::function<Status()>& call, const std::atomic<bool>& stop);
  // Calls it, unless the server has just been away; says so once when it is.
  Status IfThere(const std::function<Status()>& call);

  // The pod of the order. Made, with its gate, if there is none.
  StatusOr<Pod> FindOrMake(const ProcessOrder& order);
  Status OpenGate(const Pod& pod);
  Status Delete(const Pod& pod, int64_t grace_s);
  // Takes the pod away if it has ended, and has it end if not.
  Status Drop(const Pod& pod);

  StatusOr<TextRecord> ReadRecord();
  Status WriteRecord(const std::string& process, uint64_t first);
  uint64_t FirstKept(const ProcessName& process) const;
  Status Forgotten(const Pod& pod) const;
  void TellTrouble(const std::vector<Pod>& pods);

  const KubernetesLauncherOptions options_;
  const PodNames names_;
  std::unique_ptr<ApiServer> api_;
  std::map<std::string, uint64_t> first_kept_;  // by process: as last read; it only goes up
  std::chrono::steady_clock::time_point away_until_{};
  bool is_away_ = false;
  std::set<std::string> troubles_;   // that were told, of pods that are there
  std::unique_ptr<PodWatch> watch_;  // last: its thread calls options_
};

}  // namespace millrace
