#include "millrace/log.h"

#include <utility>

#include "base/line_sink.h"
#include "client/quiet.h"

namespace millrace::client {
namespace {

void Drop(std::string_view /*line*/) {}

}  // namespace

void SetLog(std::function<void(std::string_view line)> log) {
  SetLineSink(log ? std::move(log) : Drop);
}

void BeQuietByDefault() { SetFirstLineSink(Drop); }

}  // namespace millrace::client
