// Between the threads that have calls of trainers and the loop that folds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/wakeup.h"

namespace millrace {

// Who waits for the answer to a call. Called by one thread at a time.
template <typename Answered>
class DeskCaller {
 public:
  virtual ~DeskCaller() = default;
  // Nobody reads the answer any more.
  virtual bool HasGone() = 0;
  // Once, as the last call.
  virtual void Answer(const StatusOr<Answered>& answer) = 0;
};

// Calls is TaskCalls or NodeCalls. Ask is thread-safe; the others are the loop's.
template <typename Calls, typename Caller>
class CallDesk {
 public:
  using Asked = typename Calls::Asked;
  using Command = typename Calls::Command;
  using State = typename Calls::State;

  static constexpr size_t kMostCalls = 10'000;  // that wait at a time

  // `wakeup` is notified of calls and outlives the desk.
  explicit CallDesk(Wakeup& wakeup) : wakeup_(wakeup) {}
  // Closes it.
  ~CallDesk() { Close(); }
  CallDesk(const CallDesk&) = delete;
  CallDesk& operator=(const CallDesk&) = delete;

  // The caller is answered later, or at once with an error: InvalidArgument, the command cannot be
  // used; ResourceExhausted, too many wait; Unavailable, the desk is closed.
  void Ask(Asked call, std::unique_ptr<Caller> caller) {
    const Status accepted = Accept(call, caller);
    if (accepted.ok()) {
      wakeup_.Notify();
    } else {
      caller->Answer(accepted);
    }
  }

  // Answers all that wait, and all that come, with Unavailable.
  void Close() {
    NewCalls calls;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_closed_ = true;
      calls = std::exchange(new_, {});
    }
    for (auto& [call, caller] : calls) caller->Answer(Closed());
    for (auto& [id, caller] : callers_) caller->Answer(Closed());
    callers_.clear();
  }

  // Before the first turn, and when the loop has read `control` to its end anew: `next` is the next
  // offset. Calls that wait do so over that.
  void Open(Offset next, const State& state) {
    const auto front = static_cast<uint64_t>(int64_t{next});
    if (!calls_) {
      calls_.emplace(front);
    } else if (state.front() > calls_->front()) {
      calls_->Restart(front, state);
    }
  }

  // As those of Calls. REQUIRES Open.
  std::vector<Command> TakeCommands(const State& state) {
    NewCalls calls;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      calls = std::exchange(new_, {});
    }
    for (auto& [call, caller] : calls) {
      calls_->Add(++last_id_, std::move(call));
      callers_[last_id_] = std::move(caller);
    }
    size_t gone = 0;
    for (auto entry = callers_.begin(); entry != callers_.end();) {
      if (!entry->second->HasGone()) {
        ++entry;
        continue;
      }
      calls_->Remove(entry->first);
      entry->second->Answer(absl::CancelledError("the caller has gone"));
      entry = callers_.erase(entry);
      ++gone;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_ -= gone;
    return calls_->TakeCommands(state);
  }

  void Answer(const State& committed) {
    const auto answers = calls_->TakeAnswers(committed);
    for (const auto& [id, answer] : answers) {
      const auto caller = callers_.find(id);
      const bool has_gone = caller->second->HasGone();
      calls_->NoteAnswered(answer, !has_gone);
      caller->second->Answer(answer);
      callers_.erase(caller);
    }
    if (answers.empty()) return;
    // Who is free now may have asked while it was not.
    wakeup_.Notify();
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_ -= answers.size();
  }

 private:
  using NewCalls = std::vector<std::pair<Asked, std::unique_ptr<Caller>>>;

  static Status Closed() {
    return absl::UnavailableError(
        "this MasterApp ends: repeat the call, which the next one answers at the same address");
  }

  // Moves both away, unless it refuses.
  Status Accept(Asked& call, std::unique_ptr<Caller>& caller) {
    MILLRACE_RETURN_IF_ERROR(Calls::Check(call));
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_closed_) return Closed();
    if (waiting_ >= kMostCalls) {
      return absl::ResourceExhaustedError(std::to_string(kMostCalls) +
                                          " calls wait for an answer already; ask again later");
    }
    ++waiting_;
    new_.emplace_back(std::move(call), std::move(caller));
    return absl::OkStatus();
  }

  Wakeup& wakeup_;
  std::optional<Calls> calls_;
  typename Calls::Id last_id_ = 0;
  std::map<typename Calls::Id, std::unique_ptr<Caller>> callers_;  // of calls_

  std::mutex mutex_;  // for what follows
  bool is_closed_ = false;
  size_t waiting_ = 0;
  NewCalls new_;
};

}  // namespace millrace
