// Commands for tests of leases.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "processors/lease_table.h"

namespace millrace {

inline LeaseCommand LeaseBegin(uint32_t workers, uint32_t partitions, uint32_t open_leases = 3) {
  LeaseCommand command;
  command.mutable_begin()->set_workers(workers);
  command.mutable_begin()->set_partitions(partitions);
  command.mutable_begin()->set_open_leases(open_leases);
  return command;
}

inline LeaseCommand LeaseCut(uint32_t partition, uint64_t begin, uint64_t end,
                             int64_t next_offset) {
  LeaseCommand command;
  command.mutable_cut()->set_partition(partition);
  command.mutable_cut()->set_begin(begin);
  command.mutable_cut()->set_end(end);
  command.mutable_cut()->set_next_offset(next_offset);
  return command;
}

inline LeaseCommand LeaseEnd(uint32_t partition, uint64_t rows) {
  LeaseCommand command;
  command.mutable_end()->set_partition(partition);
  command.mutable_end()->set_rows(rows);
  return command;
}

inline void AddCounted(LeaseCommand& command, uint32_t worker, uint64_t rows, uint64_t clock) {
  LeaseCommand::Counted::Worker& said = *command.mutable_counted()->add_worker();
  said.set_worker(worker);
  said.set_rows(rows);
  said.set_clock(clock);
}

inline LeaseCommand LeaseResize(uint32_t workers) {
  LeaseCommand command;
  command.mutable_resize()->set_workers(workers);
  return command;
}

inline LeaseCommand LeaseCounted(uint32_t worker, uint64_t rows, uint64_t clock = 1) {
  LeaseCommand command;
  AddCounted(command, worker, rows, clock);
  return command;
}

// As masters, servers and zombies of both would say it; some of it cannot be.
inline LeaseCommand RandomLeaseCommand(std::mt19937& random, const LeaseTable& table) {
  const auto below = [&](uint64_t end) { return random() % end; };
  if (!table.has_begun() || below(40) == 0) {
    return LeaseBegin(1 + static_cast<uint32_t>(below(3)), 1 + static_cast<uint32_t>(below(3)));
  }
  const auto partition = static_cast<uint32_t>(below(table.inputs().size() + below(20) / 19));
  const auto input = table.inputs().find(partition);
  const uint64_t row = input == table.inputs().end() ? 0 : input->second.cut_row();
  const int64_t offset = input == table.inputs().end() ? 0 : input->second.cut_offset();
  const uint64_t kind = below(40);
  if (kind == 0) return LeaseEnd(partition, row + below(10) / 9);
  if (kind < 20) {
    const uint64_t begin = row - std::min(row, below(4) / 3 * below(5)) + below(10) / 9;
    return LeaseCut(
        partition, begin, begin + 1 + below(9),
        offset + 1 + static_cast<int64_t>(below(3)) - static_cast<int64_t>(below(10) / 9));
  }
  LeaseCommand command;
  for (const auto& [number, worker] : table.workers()) {
    if (below(2) == 0) continue;
    const uint64_t room = worker.next_row() - worker.counted_rows();
    const uint64_t rows = worker.counted_rows() + below(room + 1) + below(20) / 19;
    AddCounted(command, number, rows - std::min(rows, below(4) / 3 * below(5)),
               worker.clock() + below(2));
    command.mutable_counted()->mutable_worker()->rbegin()->set_taken(rows + below(4) / 3);
  }
  if (!command.has_counted()) AddCounted(command, 0, 0, 0);
  return command;
}

inline std::string TextOfLeases(const LeaseTable& table) {
  std::string text = table.SaveFree().DebugString();
  for (const auto& [number, worker] : table.workers()) text += worker.DebugString();
  for (const auto& [partition, input] : table.inputs()) text += input.DebugString();
  return text;
}

}  // namespace millrace
