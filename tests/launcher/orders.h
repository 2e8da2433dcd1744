// Orders for launchers, and what these see then.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/launcher.h"

namespace millrace {

inline std::vector<std::string> Shell(const std::string& text) { return {"/bin/sh", "-c", text}; }

inline ProcessOrder Order(uint32_t rank, uint64_t incarnation,
                          const std::vector<std::string>& command = {}) {
  ProcessOrder order;
  order.mutable_process()->set_group("worker");
  order.mutable_process()->set_rank(rank);
  order.set_incarnation(incarnation);
  for (const std::string& word : command) order.add_command(word);
  return order;
}

inline std::optional<ProcessReport> Find(Launcher& launcher, uint32_t rank, uint64_t incarnation) {
  const auto reports = launcher.Look();
  EXPECT_TRUE(reports.ok()) << reports.status();
  if (!reports.ok()) return std::nullopt;
  for (const ProcessReport& report : *reports) {
    if (report.process().rank() == rank && report.incarnation() == incarnation) return report;
  }
  return std::nullopt;
}

inline std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace millrace
