// A thread that keeps a picture of a job's pods.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "launcher/kubernetes/api_server.h"
#include "launcher/kubernetes/pod.h"

namespace millrace {

// Lists the pods, and watches what changes from there on. A watch that ends is gone on with where
// it ended; when its place in the API server's history is gone, the pods are listed again. While
// the server is away, the picture stays as it is. Thread-safe.
class PodWatch {
 public:
  struct Options {
    ApiServerOptions api;
    std::string job_id;
    std::function<void()> on_change;  // called by the thread; must not destroy the watch
    std::function<void(const std::string& line)> say;  // the same
  };

  // The thread begins. Errors are those of ApiServer::Create.
  static StatusOr<std::unique_ptr<PodWatch>> Create(Options options);
  // Within some 100 ms.
  ~PodWatch();
  PodWatch(const PodWatch&) = delete;
  PodWatch& operator=(const PodWatch&) = delete;

  // Returns when the pods were listed again after the call; waits for an API server that is away,
  // until `is_cancelled`. Errors are those of ApiServer::Ask that waiting does not mend.
  Status Resync(const std::function<bool()>& is_cancelled);

  std::vector<Pod> Pods() const;  // by name
  std::optional<Pod> Find(const std::string& name) const;
  // What other requests have shown, which the watch may not have told yet. It may have told what
  // came after that already: so what is in the picture stays as it is, but for what never comes
  // back.
  void NoteMade(const Pod& pod);
  void NoteGateIsOpen(const Pod& pod);
  void NoteRemoved(const Pod& pod);

 private:
  explicit PodWatch(Options options) : options_(std::move(options)) {}

  void Run();
  // Until the pods are to be listed again.
  void WatchOn(std::string version);
  StatusOr<std::string> List();
  bool Take(std::string_view line, std::string& version, bool& is_expired);
  bool IsInterrupted() const;
  // Says so, once in a row, and waits.
  void Failed(const Status& status);
  // Of a watch: one that fails each time after a list is said once, too.
  void Succeeded();
  // Less when IsInterrupted().
  void Pause(std::chrono::milliseconds time);

  const Options options_;
  std::unique_ptr<ApiServer> api_;  // used by the thread
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::map<std::string, Pod> pods_;
  uint64_t wanted_ = 0;  // lists
  uint64_t listed_ = 0;
  uint64_t failed_ = 0;  // the newest list that was wanted when one failed for good
  Status failure_;       // of it
  bool is_ending_ = false;
  // Used by the thread.
  uint64_t begun_ = 0;  // the newest list that was wanted when the last one began
  int failures_ = 0;    // in a row
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace millrace
