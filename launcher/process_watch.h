// A thread that tells when processes end.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "launcher/descriptor.h"

namespace millrace {

// Thread-safe, except that it is destroyed by one thread when nobody else uses it.
class ProcessWatch {
 public:
  // How a child of this process ended, as waitid tells.
  struct ChildEnd {
    std::string key;
    int code = 0;    // CLD_EXITED, CLD_KILLED or CLD_DUMPED
    int status = 0;  // the exit code, or the signal
  };

  // `on_event` is called on the watch's thread after something that is watched became readable; it
  // must not destroy the watch. ResourceExhausted: too many files are open.
  static StatusOr<std::unique_ptr<ProcessWatch>> Create(std::function<void()> on_event);
  // What still runs goes on, unwatched.
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // Watches a pidfd or the reading end of a pipe until it is readable, or closed at its other end;
  // then it is forgotten. A child of this process is waited for, so that it does not remain as a
  // zombie. If the key is watched already, nothing happens.
  void Add(const std::string& key, Descriptor descriptor);
  bool IsWatched(const std::string& key) const;
  // The children that have ended since the last call.
  std::vector<ChildEnd> TakeChildEnds();

 private:
  ProcessWatch(std::function<void()> on_event, Descriptor wakeup);

  void Run();
  // Waits until something is readable; its keys. Empty: the set has changed, or it is to end.
  std::vector<std::string> WaitForReady();
  void Wake() const;

  const std::function<void()> on_event_;
  const Descriptor wakeup_;  // an eventfd
  mutable std::mutex mutex_;
  // Guarded by mutex_. Only the thread takes out of it: it uses the descriptors meanwhile.
  std::map<std::string, Descriptor> watched_;
  std::vector<ChildEnd> child_ends_;  // guarded by mutex_
  bool is_ending_ = false;            // guarded by mutex_
  std::thread thread_;                // last: it uses all of the above
};

}  // namespace millrace
