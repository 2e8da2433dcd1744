#include "job/warning_line.h"

#include <spdlog/spdlog.h>

#include "base/line_sink.h"

namespace millrace {

void WarnInALine(const std::string& text) {
  if (!GiveToLineSink(text)) spdlog::warn("{}", text);
}

}  // namespace millrace
