#include "base/line_sink.h"

#include <mutex>
#include <utility>

namespace millrace {
namespace {

struct Place {
  std::mutex mutex;
  LineSink sink;
};

// Never destroyed: threads of libraries may outlive main().
Place& PlaceOfProcess() {
  static auto& place = *new Place();
  return place;
}

}  // namespace

void SetLineSink(LineSink sink) {
  Place& place = PlaceOfProcess();
  const std::lock_guard<std::mutex> lock(place.mutex);
  place.sink = std::move(sink);
}

void SetFirstLineSink(LineSink sink) {
  Place& place = PlaceOfProcess();
  const std::lock_guard<std::mutex> lock(place.mutex);
  if (!place.sink) place.sink = std::move(sink);
}

bool GiveToLineSink(std::string_view line) {
  Place& place = PlaceOfProcess();
  const std::lock_guard<std::mutex> lock(place.mutex);
  if (!place.sink) return false;
  place.sink(line);
  return true;
}

}  // namespace millrace
