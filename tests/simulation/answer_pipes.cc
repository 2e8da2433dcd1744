#include "tests/simulation/answer_pipes.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace millrace::simulation {

// Some first records had arrived.
void AnswerPipes::Break(Pipe& pipe, Random& random) {
  if (pipe.is_broken) return;
  pipe.is_broken = true;
  pipe.records.resize(random.Below(pipe.records.size() + 1));
}

void AnswerPipes::EndServer(Host server, Random& random) {
  servers_.erase(server);
  for (Pipe& pipe : pipes_) {
    if (pipe.server != server) continue;
    Break(pipe, random);
    pipe.is_noticed = true;
    pipe.server = 0;
  }
}

bool AnswerPipes::Send(Host server, const OutgoingRecord& record) {
  const auto found = servers_.find(server);
  if (found == servers_.end()) return true;
  const AnswerRoutes::Ways ways = found->second.routes.Route(record);
  for (Pipe& pipe : pipes_) {
    const bool gets_it = pipe.server == server && !pipe.is_broken &&
                         std::ranges::find(ways.streams, pipe.stream) != ways.streams.end();
    if (gets_it) pipe.records.push_back(record);
  }
  return ways.log;
}

std::vector<WorkerId> AnswerPipes::TakeLost(Host server, Random& random) {
  std::vector<WorkerId> lost = std::exchange(servers_.at(server).lost, {});
  for (Pipe& pipe : pipes_) {
    if (pipe.server != server || !pipe.is_broken || pipe.is_noticed || random.Chance(0.9)) continue;
    pipe.is_noticed = true;
    const std::vector<WorkerId> workers = servers_.at(server).routes.Close(pipe.stream);
    lost.insert(lost.end(), workers.begin(), workers.end());
  }
  std::erase_if(pipes_, [](const Pipe& pipe) {
    return pipe.is_broken && pipe.is_noticed && pipe.records.empty();
  });
  return lost;
}

bool AnswerPipes::IsBroken(Host server) const {
  return std::ranges::any_of(pipes_, [server](const Pipe& pipe) {
    return pipe.server == server && pipe.is_broken && !pipe.is_noticed;
  });
}

bool AnswerPipes::Open(Host process, const std::set<WorkerId>& workers, Random& random) {
  std::vector<Host> wanted;
  for (const auto& [server, side] : servers_) {
    const bool has_one = std::ranges::any_of(pipes_, [&, to = server](const Pipe& pipe) {
      return pipe.server == to && pipe.process == process && !pipe.is_broken;
    });
    if (!has_one) wanted.push_back(server);
  }
  if (wanted.empty()) return false;
  const Host server = wanted[random.Below(wanted.size())];
  AnswerRoutes& routes = servers_.at(server).routes;
  pipes_.push_back({server, process, routes.Open()});
  Subscribe(pipes_.back(), workers);
  return true;
}

void AnswerPipes::Subscribe(const Pipe& pipe, const std::set<WorkerId>& workers) {
  Server& server = servers_.at(pipe.server);
  const std::vector<WorkerId> lost = server.routes.Subscribe(pipe.stream, workers);
  server.lost.insert(server.lost.end(), lost.begin(), lost.end());
}

void AnswerPipes::Subscribe(Host process, const std::set<WorkerId>& workers) {
  for (const Pipe& pipe : pipes_) {
    if (pipe.process != process || pipe.is_broken) continue;
    Subscribe(pipe, workers);
  }
}

void AnswerPipes::EndProcess(Host process, Random& random) {
  for (Pipe& pipe : pipes_) {
    if (pipe.process != process) continue;
    Break(pipe, random);
    pipe.records.clear();
    pipe.process = 0;
  }
}

std::optional<OutgoingRecord> AnswerPipes::Take(Host process) {
  for (Pipe& pipe : pipes_) {
    if (pipe.process != process || pipe.records.empty()) continue;
    OutgoingRecord record = std::move(pipe.records.front());
    pipe.records.pop_front();
    if (!pipe.is_broken) {
      servers_.at(pipe.server).routes.Taken(pipe.stream, record.value.size());
    }
    return record;
  }
  return std::nullopt;
}

bool AnswerPipes::BreakOne(Random& random) {
  std::vector<Pipe*> whole;
  for (Pipe& pipe : pipes_) {
    if (!pipe.is_broken) whole.push_back(&pipe);
  }
  if (whole.empty()) return false;
  Break(*whole[random.Below(whole.size())], random);
  return true;
}

}  // namespace millrace::simulation
