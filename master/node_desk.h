// Where nodes' threads say what they have to say.
#pragma once

#include "master/call_desk.h"
#include "processors/node_calls.h"

namespace millrace {

using NodeCaller = DeskCaller<NodeAnswer>;
using NodeDesk = CallDesk<NodeCalls, NodeCaller>;

}  // namespace millrace
