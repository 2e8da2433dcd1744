// The flags of MasterApp itself.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "apps/kubernetes_flags.h"

namespace millrace {

inline constexpr char kLocalLauncher[] = "local";
inline constexpr char kKubernetesLauncher[] = "kubernetes";
inline constexpr char kOn[] = "on";
inline constexpr char kOff[] = "off";

// As they are given; MasterApp --help says what each means.
struct MasterFlags {
  std::string launcher = kLocalLauncher;
  KubernetesFlags kubernetes;
  bool has_kubernetes_flags = false;
  std::string run_dir;
  std::optional<uint32_t> server_processes;
  uint32_t worker_processes = 2;
  bool has_worker_processes = false;
  uint32_t slots = 0;
  uint32_t relaunches = 3;
  std::optional<uint32_t> server_relaunches;
  std::string server_program;
  std::string worker_command;
  std::string end_command;
  std::string worker_evaluation_log;
  bool stay = false;
  double grace_period_s = 30;
  bool run_dir_is_lost = false;
  std::string master_address;
  std::optional<uint64_t> task_timeout_s;
  std::optional<int64_t> evaluation_records;
  std::optional<int64_t> evaluation_task_records;
  std::optional<int64_t> evaluation_every_tasks;
  bool end_task = false;
  std::string task_fault_tolerance;  // kOn, kOff or, if it was not given, empty
  std::optional<uint64_t> node_timeout_s;
  uint64_t lease_rows = 0;
};

// `flags` outlives the parsing. has_kubernetes_flags and has_worker_processes are the caller's to
// set, from HasKubernetesFlags and the number of --worker-processes.
void AddMasterFlags(CLI::App& app, MasterFlags& flags);

}  // namespace millrace
