#include "python/src/trainer.h"

#include <chrono>
#include <future>
#include <string_view>
#include <utility>

#include "millrace/log.h"

namespace millrace {
namespace {

constexpr std::chrono::milliseconds kAskEvery(100);
constexpr size_t kMostLines = 500;

// Of all threads of the library, which cannot wait for the interpreter's lock: who holds that may
// wait for one of them.
struct Lines {
  std::mutex mutex;
  std::vector<std::string> lines;
};

// Never destroyed: threads of libraries may outlive the interpreter.
Lines& LinesOfProcess() {
  static auto& lines = *new Lines();
  return lines;
}

void KeepLine(std::string_view line) {
  Lines& kept = LinesOfProcess();
  const std::lock_guard<std::mutex> lock(kept.mutex);
  if (kept.lines.size() < kMostLines) kept.lines.emplace_back(line);
}

}  // namespace

std::vector<std::string> TakeLines() {
  Lines& kept = LinesOfProcess();
  const std::lock_guard<std::mutex> lock(kept.mutex);
  return std::exchange(kept.lines, {});
}

client::Result<std::unique_ptr<Trainer>> Trainer::Open(client::Settings settings,
                                                       std::function<bool()> stopped) {
  [[maybe_unused]] static const bool once = (client::SetLog(KeepLine), true);
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(stopped)));
  settings.stop = &trainer->stop_;
  settings.while_waiting = [opened = trainer.get()] {
    if (opened->stopped_()) opened->stop_ = true;
  };
  // It waits for a broker, and asks nobody meanwhile.
  auto connects = std::async(std::launch::async,
                             [&settings] { return client::ParameterManager::Connect(settings); });
  while (connects.wait_for(kAskEvery) != std::future_status::ready) {
    if (trainer->stopped_()) trainer->stop_ = true;
  }
  auto connected = connects.get();
  if (!connected.ok()) return connected.status();
  trainer->manager_.reset(connected->release());
  return trainer;
}

client::Status Trainer::WaitForTurn(std::unique_lock<std::timed_mutex>& turn) {
  // (First: a thread that had its turn when the process was forked does not end it here.)
  const InItsProcess& process = manager_.get_deleter();
  if (!process.IsThisOne()) {
    return {client::Code::kFailedPrecondition, process.Refusal("this ParameterManager")};
  }
  while (!turn.try_lock_for(kAskEvery)) {
    if (stopped_()) return {client::Code::kCancelled, "stopped"};
  }
  return {};
}

}  // namespace millrace
