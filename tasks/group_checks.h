// Which jobs several groups of servers can train together (JobTraining.group).
#pragma once

#include "base/status.h"
#include "messages/records.pb.h"
#include "messages/training.pb.h"

namespace millrace {

// A group adds up what others have changed, parameter by parameter; optimizers and handlers keep
// their state to themselves. So these must allow that what they have made is added to. Both return
// InvalidArgument, with what is wrong and what to do.
Status CheckTrainsInGroups(const Training& training);
// Also of what the features or parameters say. REQUIRES: CheckModel.
Status CheckModelInGroups(const JobFeatures& features, const Training& training);

}  // namespace millrace
