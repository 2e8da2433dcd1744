#include "apps/job_flags.h"

#include <google/protobuf/text_format.h>

#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/config_checks.h"
#include "apps/flag_field.h"
#include "apps/flag_needs.h"
#include "apps/text_error.h"
#include "apps/topology.h"
#include "apps/topology_file.h"
#include "apps/version.h"
#include "base/check.h"
#include "base/whole_file.h"
#include "processors/policy.h"

namespace millrace {
namespace {

constexpr size_t kMostConfigBytes = size_t{16} << 20;
constexpr size_t kHelpColumns = 70;  // of the text beside the flags' names

Status SetConsistency(const std::string& text, JobConfig& config) {
  MILLRACE_ASSIGN_OR_RETURN(const ConsistencyPolicy policy, ConsistencyPolicy::Parse(text));
  Training::Consistency& consistency = *config.mutable_training()->mutable_consistency();
  consistency.Clear();
  if (policy.sequential()) {
    consistency.set_model(Training::Consistency::SEQUENTIAL);
  } else if (!policy.bound()) {
    consistency.set_model(Training::Consistency::EVENTUAL);
  } else {
    consistency.set_model(Training::Consistency::BOUNDED);
    consistency.set_max_delay(*policy.bound());
  }
  return absl::OkStatus();
}

Status AddKafkaSetting(const std::string& text, JobConfig& config) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    // Not shown: it may be a password.
    return absl::InvalidArgumentError("expected KEY=VALUE, such as security.protocol=SASL_SSL");
  }
  KafkaSetting& setting = *config.add_kafka();
  setting.set_key(text.substr(0, equals));
  setting.set_value(text.substr(equals + 1));
  return absl::OkStatus();
}

// Fields that are messages have notations of their own.
Status SetByFlag(const Flag& flag, const std::string& text, JobConfig& config) {
  const FlagField field(flag.field);
  if (!field.is_message()) return field.Set(text, config);
  if (flag.field == std::string("kafka")) return AddKafkaSetting(text, config);
  if (flag.field == std::string("topology")) {
    MILLRACE_ASSIGN_OR_RETURN(*config.mutable_topology(), ReadTopology(text));
    return absl::OkStatus();
  }
  MILLRACE_CHECK(flag.field == std::string("training.consistency"));
  return SetConsistency(text, config);
}

std::string Wrapped(const std::string& text, size_t columns) {
  std::string lines;
  size_t used = 0;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(text, ' '))) {
    const bool fits = used + 1 + word.size() <= columns;
    if (!lines.empty()) lines += fits ? ' ' : '\n';
    used = lines.empty() || !fits ? word.size() : used + 1 + word.size();
    lines += word;
  }
  return lines;
}

std::string HelpText(const Flag& flag) {
  std::string text = flag.help;
  const std::optional<std::string> value = FlagField(flag.field).default_text();
  if (flag.otherwise != nullptr) {
    absl::StrAppend(&text, " [", flag.otherwise, "]");
  } else if (value) {
    absl::StrAppend(&text, " [", *value, "]");
  }
  return Wrapped(text, kHelpColumns);
}

}  // namespace

JobFlags::JobFlags(CLI::App& app) : app_(app) {
  app.set_version_flag("--version", std::string("Millrace ") + MillraceVersion());
  app.add_option("--config", config_file_,
                 Wrapped("Job configuration in protobuf text format (messages/job.proto documents "
                         "every field); flags override it, and of a flag given twice the last "
                         "counts",
                         kHelpColumns))
      ->type_name("FILE");
  AddGroups(FlagUser::kAll);
}

void JobFlags::AddGroups(FlagUser user) {
  for (const FlagGroup& group : FlagGroups()) {
    if (group.user != user) continue;
    for (const Flag& flag : group.flags) AddFlag(flag, group.title);
  }
}

void JobFlags::AddAll(std::span<const std::string_view> without) {
  std::set<std::string_view> fields(without.begin(), without.end());
  for (const FlagGroup& group : FlagGroups()) {
    if (group.user == FlagUser::kAll) continue;  // they are there
    for (const Flag& flag : group.flags) {
      if (fields.insert(flag.field).second) AddFlag(flag, group.title);
    }
  }
}

void JobFlags::AddFlag(const Flag& flag, const std::string& group) {
  const auto set = [this, &flag](const std::string& text) {
    given_.push_back(flag.field);
    overrides_.emplace_back([&flag, text](JobConfig& config) -> Status {
      Status done = SetByFlag(flag, text, config);
      if (done.ok()) return done;
      const std::string_view names = flag.name;
      const std::string name(names.substr(0, names.find(',')));
      return Status(done.code(), absl::StrCat(name, ": ", done.message()));
    });
  };
  const FlagField field(flag.field);
  if (field.is_switch()) {
    app_.add_flag_callback(
            flag.name, [set] { set(""); }, HelpText(flag))
        ->group(group);
    return;
  }
  const CLI::callback_t set_all = [set](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) set(text);
    return true;
  };
  CLI::Option* const option = app_.add_option(flag.name, set_all, HelpText(flag));
  option->group(group)->type_name(field.type_name());
  // Settings add up; of any other flag given twice the last counts, as in most tools.
  option->multi_option_policy(flag.field == std::string("kafka")
                                  ? CLI::MultiOptionPolicy::TakeAll
                                  : CLI::MultiOptionPolicy::TakeLast);
}

void JobFlags::Hide(std::initializer_list<const char*> flags) {
  for (const char* const flag : flags) app_.get_option(flag)->group("");
}

StatusOr<JobConfig> JobFlags::Load() const {
  JobConfig config;
  if (!config_file_.empty()) {
    if (std::filesystem::is_directory(config_file_)) {
      return absl::NotFoundError("the configuration " + config_file_ + " is a folder");
    }
    const StatusOr<std::string> text = ReadWholeFile(config_file_, kMostConfigBytes);
    if (!text.ok()) {
      return absl::NotFoundError("the configuration " + config_file_ +
                                 " cannot be read: " + std::string(text.status().message()));
    }
    MILLRACE_RETURN_IF_ERROR(ParseConfigText(*text, config_file_, config));
  }
  for (const auto& override : overrides_) MILLRACE_RETURN_IF_ERROR(override(config));
  MILLRACE_RETURN_IF_ERROR(ApplyTopology(config));
  MILLRACE_RETURN_IF_ERROR(ValidateConfig(config));
  MILLRACE_RETURN_IF_ERROR(CheckFlagNeeds(given_, config));
  return config;
}

Status ParseConfigText(const std::string& text, const std::string& name, JobConfig& config) {
  FirstTextError error(name);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &config)) return absl::InvalidArgumentError(error.text());
  return absl::OkStatus();
}

}  // namespace millrace
