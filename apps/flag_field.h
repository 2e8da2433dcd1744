// One field of the configuration as a flag: parses its text, and describes it for --help.
#pragma once

#include <google/protobuf/descriptor.h>

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "messages/job.pb.h"

namespace millrace {

// Everything is looked up in the descriptors of JobConfig: type, choices of an enum, default. An
// enum's choices are its values' names in lower case with hyphens (ONE_PASS: one-pass), but for the
// few that have a shorter name. Immutable.
class FlagField {
 public:
  // `path`: names of fields from JobConfig on, separated by dots: "training.optimizer.kind".
  // REQUIRES: there is such a field.
  explicit FlagField(const std::string& path);

  bool is_switch() const;   // a bool: its flag takes no value and sets it to true
  bool is_message() const;  // has a notation of its own; not for Set()
  // "UINT", "FLOAT", "TEXT", "FILE", "A,B,..." or an enum's choices: "sgd|momentum|adagrad".
  std::string type_name() const;
  // The default, as it would be given on the command line; empty if the field has none.
  std::optional<std::string> default_text() const;

  // The field's value as Set() takes it, if it is set and not the default; of a switch that is on
  // the empty text. REQUIRES: !is_message().
  std::optional<std::string> TextOf(const JobConfig& config) const;

  // Sets the field; a repeated field is replaced by the items between the commas, of which one that
  // holds a comma stands in double quotes (features/name_list.h). InvalidArgument says what is
  // wrong with `text`, without the flag's name. REQUIRES: !is_message().
  Status Set(const std::string& text, JobConfig& config) const;

 private:
  const google::protobuf::FieldDescriptor& leaf() const { return *path_.back(); }

  std::vector<const google::protobuf::FieldDescriptor*> path_;
};

}  // namespace millrace
