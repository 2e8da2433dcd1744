// Checks of a configuration that every program makes.
#pragma once

#include <string>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// InvalidArgument with one line: the field's name in the configuration, what is wrong, and what is
// valid.
Status ValidateConfig(const JobConfig& config);

// Whether the job has rows, which `program` sends or learns from: InvalidArgument if trainers of
// one's own make it.
Status CheckReadsRows(const JobConfig& config, const std::string& program);

// Whether a program can keep its stores in this --data-dir: known before it waits for others.
// Makes nothing.
Status CheckDataDir(const std::string& path);

// What stands in the job topic, where anybody may have written it: whether it is a job that a
// program can run. DataLoss, in one line.
Status CheckJob(const JobFeatures& features, const JobTraining& training);

}  // namespace millrace
