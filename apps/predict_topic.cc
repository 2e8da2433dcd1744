#include "apps/predict_topic.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/csv_dialect.h"
#include "job/kafka_options.h"
#include "predictor/topic_run.h"

namespace millrace {
Status PredictTopic(const PredictorFlags& flags, const JobConfig& config, const ModelSource& models,
                    const std::atomic<bool>& stop) {
  TopicRun::Options options = flags.topics;
  options.kafka = ToKafkaOptions(config);
  MILLRACE_ASSIGN_OR_RETURN(options.start, ParseStartPoint(flags.from));
  if (flags.format == "csv") options.records.format = RecordScorer::Format::kCsv;
  if (flags.format == "avro") options.records.format = RecordScorer::Format::kAvro;
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
                            TopicRun::Create(models, std::move(options)));
  return run->Run();
}

}  // namespace millrace
