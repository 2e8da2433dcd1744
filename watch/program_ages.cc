#include "watch/program_ages.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace {
namespace {

// Those whose names begin with `kind`, in one phrase; empty if there are none.
std::string Phrase(const JobState& state, const std::string& kind, const std::string& title) {
  std::vector<double> ages;
  bool found = false;
  for (const ProgramAge& program : state.programs) {
    if (!program.name.starts_with(kind)) continue;
    found = true;
    if (!program.ended) ages.push_back(program.seconds);
  }
  if (ages.empty()) return found ? absl::StrCat(title, " ended") : std::string();
  const auto [least, most] = std::minmax_element(ages.begin(), ages.end());
  const std::string youngest = ClockTime(*least);
  const std::string oldest = ClockTime(*most);
  return absl::StrCat(title, " ",
                      youngest == oldest ? oldest : absl::StrCat(youngest, " to ", oldest), " ago");
}

}  // namespace

std::string AgesText(const JobState& state) {
  std::vector<std::string> phrases;
  for (const auto& [kind, title] :
       {std::pair("CsvProducer", "CsvProducer"), std::pair("ServerApp", "ServerApp"),
        std::pair("WorkerApps", "WorkerApps"), std::pair("worker", "workers' updates")}) {
    const std::string phrase = Phrase(state, kind, title);
    if (!phrase.empty()) phrases.push_back(phrase);
  }
  return phrases.empty() ? "nobody" : absl::StrJoin(phrases, ", ");
}

}  // namespace millrace
