#include "producer/delivery_watch.h"

namespace millrace {

std::optional<std::chrono::seconds> DeliveryWatch::Observe(Time now, uint64_t delivered,
                                                           uint64_t outstanding) {
  now_ = now;
  if (outstanding == 0 || delivered != delivered_) {
    delivered_ = delivered;
    since_ = now;
    next_report_ = now + kReportEvery;
  }
  if (now < next_report_) return std::nullopt;
  next_report_ += kReportEvery;
  return std::chrono::duration_cast<std::chrono::seconds>(stalled());
}

}  // namespace millrace
