// The flags of Predictor, but for those of a job (apps/job_flags.h).
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "predictor/http_server.h"
#include "predictor/topic_run.h"

namespace millrace {

struct PredictorFlags {
  std::string model;
  bool follow = false;
  std::string challenger;
  // A file.
  std::string input;
  std::string output;
  std::string reject_file;
  std::string figures;
  std::string delimiter;
  std::string encoding = "utf8";
  bool contributions = false;
  bool quiet = false;
  // HTTP.
  std::string token_file;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;
  uint32_t timeout_s = 30;
  HttpServerOptions http;
  std::string id_column;
  size_t most_waiting_bytes = size_t{64} << 20;
  // From topic to topic; with --delimiter.
  std::string from = "beginning";
  std::string format = "json";
  std::string on_data_loss = "stop";
  double interval_s = 0.05;
  TopicRun::Options topics;  // what needs no conversion
};

extern const char kPredictorDescription[];
extern const char kPredictorFooter[];  // of --help

// `flags` outlives the parsing.
void AddPredictorFlags(CLI::App& app, PredictorFlags& flags);
// What the parser cannot know of the flags that it has read, of a job's, too: those that need
// others, and those that have no effect beside them. InvalidArgument names the flag and the remedy.
Status CheckPredictorFlags(const PredictorFlags& flags, const CLI::App& app);

}  // namespace millrace
