// Flags that have an effect only beside others.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "messages/job.pb.h"

namespace millrace {

// `fields` are those of the flags that were given, as in Flag::field; `config` is what all flags
// and the file say together. InvalidArgument, which names the flag and what it needs: what was
// given would have no effect. (A file serves several programs and runs, so what it says beyond this
// one's needs is no error.)
Status CheckFlagNeeds(const std::vector<std::string>& fields, const JobConfig& config);

}  // namespace millrace
