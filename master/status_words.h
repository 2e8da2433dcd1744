// Words that more than one text about a job uses: a master's log, a table, JSON. Pure.
#pragma once

#include <string>

#include "master/job_view.h"
#include "messages/leases.pb.h"
#include "messages/master.pb.h"

namespace millrace {

// A word each, which programs read, too (docs/master.md); "unknown" where a newer master has
// written one that is not known here.
std::string JobPhaseText(MasterState::Phase phase);
std::string ProcessPhaseText(ProcessState::Phase phase);
std::string NodePhaseText(MemberState::Phase phase);
std::string WorkerStateText(const WorkerLeases& worker);  // "active", "leaving" or "left"

// The path of the process's log on the master's machine; empty: it is not known, or the process is
// a pod, whose log is no file of that machine.
std::string LogOf(const ProcessState& process, const MasterState& state);

// A sentence, with the remedy, but without its last stop.
std::string ToText(const ServersAlone& alone);

}  // namespace millrace
