#include "python/src/trainer.h"

#include <chrono>
#include <future>
#include <utility>

namespace millrace {
namespace {

constexpr std::chrono::milliseconds kAskEvery(100);

}  // namespace

client::Result<std::unique_ptr<Trainer>> Trainer::Open(client::Settings settings,
                                                       std::function<bool()> stopped) {
  std::unique_ptr<Trainer> trainer(new Trainer);
  settings.stop = &trainer->stop_;
  settings.while_waiting = [stop = &trainer->stop_, stopped] {
    if (stopped()) *stop = true;
  };
  // It waits for a broker, and asks nobody meanwhile.
  auto connects = std::async(std::launch::async,
                             [&settings] { return client::ParameterManager::Connect(settings); });
  while (connects.wait_for(kAskEvery) != std::future_status::ready) {
    if (stopped()) trainer->stop_ = true;
  }
  auto connected = connects.get();
  if (!connected.ok()) return connected.status();
  trainer->manager_ = std::move(*connected);
  return trainer;
}

}  // namespace millrace
