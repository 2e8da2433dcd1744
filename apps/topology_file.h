// topology.textproto: a job's topology as a file.
#pragma once

#include <string>

#include "base/status.h"
#include "messages/topology.pb.h"

namespace millrace {

// A topology that can be (apps/topology.h). InvalidArgument: the text is none, or one that cannot
// be; the message begins with "NAME:LINE:COLUMN: ", the place of the entry that is wrong.
StatusOr<Topology> ParseTopology(const std::string& text, const std::string& name);

// The same of a file. Also NotFound and other errors of reading; messages name the file.
StatusOr<Topology> ReadTopology(const std::string& path);

}  // namespace millrace
