#include "processors/process_orders.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/printable.h"
#include "topics/control_codec.h"

namespace millrace {
namespace {

using Key = ProcessTable::Key;
using Sightings = std::map<std::pair<Key, uint64_t>, const ProcessReport*>;

// Printed, a byte may take four.
constexpr size_t kMostDetailShown = 1'000;

Sightings IndexOf(const std::vector<ProcessReport>& seen) {
  Sightings index;
  for (const ProcessReport& report : seen) {
    index[{ProcessTable::KeyOf(report.process()), report.incarnation()}] = &report;
  }
  return index;
}

// Null: it is not seen.
const ProcessReport* SightingOf(const ProcessState& process, const Sightings& index) {
  const auto found = index.find({ProcessTable::KeyOf(process.process()), process.incarnation()});
  return found == index.end() ? nullptr : found->second;
}

ProcessOrder StopOf(const ProcessName& process, uint64_t incarnation) {
  ProcessOrder order;
  order.set_kind(ProcessOrder::STOP);
  *order.mutable_process() = process;
  order.set_incarnation(incarnation);
  return order;
}

ProcessOrder StartOf(const ProcessState& process) {
  ProcessOrder order;
  order.set_kind(ProcessOrder::START);
  *order.mutable_process() = process.process();
  order.set_incarnation(process.incarnation());
  for (const std::string& argument : process.command()) {
    order.add_command(WithNumber(argument, kIncarnationPlaceholder, process.incarnation()));
  }
  return order;
}

// Whether the state knows that this incarnation is over. For ever: it has no number again.
bool IsOver(const ProcessTable& table, const ProcessReport& report) {
  return report.incarnation() <= table.incarnations() &&
         !table.MayRun(ProcessTable::KeyOf(report.process()), report.incarnation());
}

// A launcher's text may be any bytes, but the message must be readable.
ProcessReport Readable(const ProcessReport& report) {
  ProcessReport readable = report;
  if (report.end().detail().empty()) return readable;
  readable.mutable_end()->set_detail(Printable(report.end().detail(), kMostDetailShown));
  return readable;
}

}  // namespace

std::vector<ProcessOrder> OrdersOf(const ProcessTable& table,
                                   const std::vector<ProcessReport>& seen) {
  using Order = std::pair<int64_t, ProcessOrder>;  // with a number: the lower is the sooner
  const Sightings index = IndexOf(seen);
  std::vector<Order> stops;
  std::set<Key> still_there;  // an incarnation runs whose end is known
  for (const ProcessReport& report : seen) {
    if (report.has_end() || !IsOver(table, report)) continue;
    still_there.insert(ProcessTable::KeyOf(report.process()));
    stops.emplace_back(-1, StopOf(report.process(), report.incarnation()));
  }
  std::vector<Order> starts;
  const bool is_active = table.phase() == MasterState::ACTIVE;
  for (const auto& [key, process] : table.processes()) {
    const ProcessReport* sighting = SightingOf(process, index);
    if (process.phase() == ProcessState::STOPPING &&
        (sighting == nullptr || !sighting->has_end())) {
      stops.emplace_back(table.PriorityOf(key), StopOf(process.process(), process.incarnation()));
    }
    const bool is_due =
        is_active && process.phase() == ProcessState::STARTING && sighting == nullptr;
    if (is_due && !still_there.contains(key)) {
      starts.emplace_back(-table.PriorityOf(key), StartOf(process));
    }
  }
  std::vector<ProcessOrder> orders;
  for (std::vector<Order>* part : {&stops, &starts}) {
    std::ranges::stable_sort(*part, {}, &Order::first);
    for (Order& order : *part) orders.push_back(std::move(order.second));
  }
  return orders;
}

std::vector<ProcessReport> ReportsOf(const ProcessTable& table,
                                     const std::vector<ProcessReport>& seen) {
  const Sightings index = IndexOf(seen);
  std::vector<ProcessReport> reports;
  for (const auto& [key, process] : table.processes()) {
    if (!HoldsSlot(process.phase())) continue;
    const ProcessReport* sighting = SightingOf(process, index);
    if (sighting != nullptr) {
      const bool is_known = !sighting->has_end() && process.phase() != ProcessState::STARTING;
      if (!is_known) reports.push_back(Readable(*sighting));
    } else if (process.phase() == ProcessState::RUNNING) {
      ProcessReport& report = reports.emplace_back();
      *report.mutable_process() = process.process();
      report.set_incarnation(process.incarnation());
      report.mutable_end()->set_cause(ProcessEnd::UNKNOWN);
      report.mutable_end()->set_detail("what its launcher knew of it is gone");
    }
  }
  return reports;
}

std::vector<ProcessReport> OverIn(const ProcessTable& table,
                                  const std::vector<ProcessReport>& seen) {
  std::vector<ProcessReport> over;
  for (const ProcessReport& report : seen) {
    if (report.has_end() && IsOver(table, report)) over.push_back(report);
  }
  return over;
}

}  // namespace millrace
