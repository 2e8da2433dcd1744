#include "apps/flag_needs.h"

#include <algorithm>

#include "apps/flag_table.h"
#include "tasks/task_options.h"

namespace millrace {
namespace {

bool IsOnePass(const JobConfig& config) {
  return config.training().schedule() == Training::ONE_PASS;
}
bool IsBuffer(const JobConfig& config) { return config.training().schedule() == Training::BUFFER; }
bool HasBatches(const JobConfig& config) {
  Training training = config.training();
  SetDefaultUpdate(training);
  return !IsBuffer(config) || training.update().kind() == Training::Update::ONLINE;
}
bool SendsGradients(const JobConfig& config) {
  return config.training().update().kind() == Training::Update::GRADIENT;
}
bool SendsChanges(const JobConfig& config) {
  return config.training().update().kind() == Training::Update::WEIGHT_CHANGE;
}
bool IteratesBySgd(const JobConfig& config) {
  return SendsChanges(config) && config.training().update().solver() == Training::Update::LOCAL_SGD;
}
bool IsSoftmax(const JobConfig& config) { return config.training().model() == Training::SOFTMAX; }
bool IsNetwork(const JobConfig& config) { return config.training().model() == Training::NETWORK; }
bool HasFactors(const JobConfig& config) {
  return config.training().model() == Training::FACTORIZATION_MACHINE ||
         config.training().model() == Training::DEEP_FM;
}
bool DrawsRows(const JobConfig& config) { return HasFactors(config) || IsNetwork(config); }
bool HasDrawnRows(const JobConfig& config) {
  return DrawsRows(config) || config.training().model() == Training::EXTERNAL;
}
bool MayBeWide(const JobConfig& config) { return IsSoftmax(config) || IsNetwork(config); }
bool IsFtrl(const JobConfig& config) {
  return config.training().optimizer().kind() == Training::Optimizer::FTRL;
}
bool HasHuberLimit(const JobConfig& config) { return config.training().loss() == Training::HUBER; }
bool HasNumbers(const JobConfig& config) {
  const FeatureSpec& spec = config.features();
  return !spec.numeric().empty() || !spec.bins().empty() || !spec.booleans().empty() ||
         !spec.times().empty();
}
bool TakesMissing(const JobConfig& config) {
  return HasNumbers(config) && config.features().missing() != FeatureSpec::REJECT;
}
bool HasCategories(const JobConfig& config) {
  const FeatureSpec& spec = config.features();
  return !spec.categorical().empty() || !spec.bins().empty() || !spec.times().empty();
}
bool HasText(const JobConfig& config) { return !config.features().text().empty(); }
bool HasTimes(const JobConfig& config) { return !config.producer().time_column().empty(); }
bool HasTest(const JobConfig& config) { return config.server().has_test_file(); }
bool HasSnapshotDir(const JobConfig& config) { return config.server().has_snapshot_dir(); }

struct Need {
  const char* field;  // of the flag that was given
  const char* what;   // it needs
  bool (*is_met)(const JobConfig&);
};

// (What ValidateConfig refuses in a file, too, is not here.)
constexpr Need kNeeds[] = {
    {"features.missing", "--numeric, --booleans, --time-features or --bins", HasNumbers},
    {"features.missing_tokens",
     "--numeric, --booleans, --time-features or --bins, and --missing mean or mean-only",
     TakesMissing},
    {"features.categorical_buckets", "--categorical, --time-features or --bins", HasCategories},
    {"features.text_buckets", "--text", HasText},
    {"producer.speedup", "--time-column", HasTimes},
    {"training.batch_rows", "--schedule one-pass or --update online", HasBatches},
    {"training.batch_wait_s", "--schedule one-pass", IsOnePass},
    {"training.rounds_after_end", "--schedule buffer", IsBuffer},
    {"training.buffer.min_rows", "--schedule buffer", IsBuffer},
    {"training.buffer.max_rows", "--schedule buffer", IsBuffer},
    {"training.buffer.coefficient", "--schedule buffer", IsBuffer},
    {"training.buffer.minibatch_rows", "--schedule buffer", IsBuffer},
    {"training.buffer.skip_rows", "--schedule buffer", IsBuffer},
    {"training.update.solver", "--update weight-change", SendsChanges},
    {"training.update.local_iterations", "--update weight-change", SendsChanges},
    {"training.update.local_learning_rate", "--update weight-change and --solver sgd",
     IteratesBySgd},
    {"training.optimizer.kind", "--update gradient", SendsGradients},
    {"training.optimizer.learning_rate", "--update gradient", SendsGradients},
    {"training.optimizer.decay", "--update gradient", SendsGradients},
    {"training.optimizer.ftrl_beta", "--optimizer ftrl", IsFtrl},
    {"training.wide_above", "--model softmax or network", MayBeWide},
    {"training.embedding.factors", "--model fm or deepfm", HasFactors},
    {"training.embedding.initial_limit", "--model fm, deepfm or network", DrawsRows},
    {"training.huber_limit", "--loss huber", HasHuberLimit},
    {"training.embedding.seed", "--model fm, deepfm, network or external", HasDrawnRows},
    {"training.embedding.l2", "--model fm or deepfm", HasFactors},
    {"server.evaluation_interval_s", "--test", HasTest},
    {"server.evaluation_every", "--test", HasTest},
    {"training.snapshot_every", "--snapshot-dir", HasSnapshotDir},
    {"server.snapshots_kept", "--snapshot-dir", HasSnapshotDir},
};

}  // namespace

Status CheckFlagNeeds(const std::vector<std::string>& fields, const JobConfig& config) {
  for (const Need& need : kNeeds) {
    if (std::find(fields.begin(), fields.end(), need.field) == fields.end()) continue;
    if (need.is_met(config)) continue;
    const std::string flag = FlagOfField(need.field);
    return absl::InvalidArgumentError(flag + " has no effect without " + need.what +
                                      ": give that, too, or leave out " + flag);
  }
  return absl::OkStatus();
}

}  // namespace millrace
