#include "apps/predict_topic.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/job_flags.h"
#include "base/whole_file.h"
#include "features/time_value.h"
#include "formats/csv_dialect.h"
#include "job/kafka_options.h"
#include "predictor/topic_run.h"

namespace millrace {
namespace {

StatusOr<KafkaOptions> ReadKafkaOptions(const PredictorFlags& flags) {
  JobConfig config;
  if (!flags.config.empty()) {
    constexpr size_t kMostBytes = size_t{1} << 20;
    const StatusOr<std::string> text = ReadWholeFile(flags.config, kMostBytes);
    if (!text.ok()) {
      return absl::NotFoundError(absl::StrCat("the configuration ", flags.config,
                                              " cannot be read: ", text.status().message()));
    }
    MILLRACE_RETURN_IF_ERROR(ParseConfigText(*text, flags.config, config));
  }
  if (!flags.brokers.empty()) config.set_brokers(flags.brokers);
  if (flags.broker_timeout_s) config.set_broker_timeout_s(*flags.broker_timeout_s);
  KafkaOptions options = ToKafkaOptions(config);
  for (const std::string& setting : flags.kafka) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      // Not shown: it may be a password.
      return absl::InvalidArgumentError(
          "--kafka: expected KEY=VALUE, such as security.protocol=SASL_SSL");
    }
    options.settings.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
  }
  return options;
}

Status ParseStart(const std::string& text, TopicRun::Options& options) {
  if (text == "beginning") return absl::OkStatus();
  if (text == "now") {
    options.start = TopicRun::Start::kNow;
    return absl::OkStatus();
  }
  const std::optional<RecordedTime> time = ParseTime(text);
  if (!time) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--from: give beginning, now, or a time such as 2013-01-31T10:00:00Z (of the records' "
        "timestamps), not '",
        text, "'"));
  }
  options.start = TopicRun::Start::kTime;
  options.start_ms = std::chrono::duration_cast<std::chrono::milliseconds>(*time).count();
  return absl::OkStatus();
}

}  // namespace

Status PredictTopic(const PredictorFlags& flags, const ModelFolder& folder,
                    const std::atomic<bool>& stop) {
  TopicRun::Options options = flags.topics;
  MILLRACE_ASSIGN_OR_RETURN(options.kafka, ReadKafkaOptions(flags));
  MILLRACE_RETURN_IF_ERROR(ParseStart(flags.from, options));
  if (flags.format == "csv") options.records.format = RecordScorer::Format::kCsv;
  if (!flags.delimiter.empty()) {
    const StatusOr<char> delimiter = ParseDelimiter(flags.delimiter);
    if (!delimiter.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--delimiter: ", delimiter.status().message()));
    }
    options.records.delimiter = *delimiter;
  }
  options.continue_on_data_loss = flags.on_data_loss == "continue";
  options.linger = std::chrono::milliseconds(static_cast<int64_t>(1000 * flags.interval_s));
  options.quiet = flags.quiet;
  options.stop = &stop;
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<TopicRun> run,
                            TopicRun::Create(folder, std::move(options)));
  return run->Run();
}

}  // namespace millrace
