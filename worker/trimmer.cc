#include "worker/trimmer.h"

#include <chrono>

namespace millrace {
namespace {

constexpr std::chrono::milliseconds kDeleteCall = std::chrono::seconds(5);

}  // namespace

Trimmer::Trimmer(std::unique_ptr<KafkaAdmin> admin)
    : admin_(std::move(admin)), thread_([this] { Run(); }) {}

Trimmer::~Trimmer() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Trimmer::Trim(const std::string& topic, int32_t partition, Offset offset) {
  if (offset <= 0) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    todo_[{topic, partition}] = offset;
  }
  changed_.notify_all();
}

void Trimmer::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !todo_.empty(); });
    if (ending_) return;
    const auto [place, offset] = *todo_.begin();
    todo_.erase(todo_.begin());
    lock.unlock();
    Offset& done = done_[place];
    if (offset > done &&
        admin_->DeleteRecordsBefore(place.first, place.second, offset, kDeleteCall).ok()) {
      done = offset;
    }
    lock.lock();
  }
}

}  // namespace millrace
