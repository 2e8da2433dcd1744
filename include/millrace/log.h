// Lines for whoever runs the trainer: a broker that is away, records that were not delivered.
#pragma once

#include <functional>
#include <string_view>

namespace millrace::client {

// From now on `log` gets each line of all managers of this process, without its end: of any thread,
// one at a time, until the process ends. It must not call the library. Null, as at first: nobody
// gets them. What a call fails for is in its Status.
void SetLog(std::function<void(std::string_view line)> log);

}  // namespace millrace::client
