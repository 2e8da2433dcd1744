#include "master/task_checkpoint.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "topics/task_codec.h"

namespace millrace {
namespace {

using CheckpointJson = nlohmann::ordered_json;

// Reads numbers of one JSON object, and keeps the first thing that was wrong.
class Fields {
 public:
  explicit Fields(const CheckpointJson& json) : json_(json) {}

  template <typename Number>
  Number Read(const char* key) {
    const auto field = json_.find(key);
    if (field == json_.end() || !IsIn<Number>(*field)) return Missing(key), Number();
    return field->template get<Number>();
  }
  const CheckpointJson* Find(const char* key) const {
    const auto field = json_.find(key);
    return field == json_.end() ? nullptr : &*field;
  }
  void Missing(const char* key) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError("not a checkpoint of a data set: its field " +
                                           std::string(key) + " is missing, or is another thing");
    }
  }
  template <typename Number>
  static bool IsIn(const CheckpointJson& value) {
    if (!value.is_number_integer()) return false;
    return value.is_number_unsigned() ? std::in_range<Number>(value.get<uint64_t>())
                                      : std::in_range<Number>(value.get<int64_t>());
  }
  const Status& status() const { return status_; }

 private:
  const CheckpointJson& json_;
  Status status_;
};

}  // namespace

std::string TaskCheckpointText(const TaskSetPosition& position) {
  const TaskSetSpec& spec = position.spec();
  CheckpointJson json = {
      {"dataset_name", spec.name()},
      {"dataset_size", spec.records()},
      {"records_per_task", spec.records_per_task()},
      {"num_epochs", spec.epochs()},
      {"current_epoch", EpochAt(spec, position.dealt())},
      {"shuffle_shards", spec.has_shuffle()},
      {"seed", spec.shuffle()},
      {"task_type", spec.type()},
      {"task_timeout", spec.timeout_ticks()},
      {"most_failures", spec.most_failures()},
      {"dealt", position.dealt()},
      {"undone", CheckpointJson::array()},
  };
  for (const int64_t number : position.undone()) json["undone"].push_back(number);
  return json.dump(-1, ' ', false, CheckpointJson::error_handler_t::replace);
}

StatusOr<TaskSetPosition> ParseTaskCheckpoint(std::string_view text) {
  const CheckpointJson json = CheckpointJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError("not a checkpoint of a data set: it is no JSON object");
  }
  Fields fields(json);
  TaskSetPosition position;
  TaskSetSpec& spec = *position.mutable_spec();
  const CheckpointJson* name = fields.Find("dataset_name");
  if (name != nullptr && name->is_string()) {
    spec.set_name(name->get<std::string>());
  } else {
    fields.Missing("dataset_name");
  }
  spec.set_records(fields.Read<int64_t>("dataset_size"));
  spec.set_records_per_task(fields.Read<int64_t>("records_per_task"));
  spec.set_epochs(fields.Read<uint32_t>("num_epochs"));
  spec.set_type(fields.Read<int32_t>("task_type"));
  spec.set_timeout_ticks(fields.Read<uint64_t>("task_timeout"));
  spec.set_most_failures(fields.Read<uint32_t>("most_failures"));
  const CheckpointJson* shuffles = fields.Find("shuffle_shards");
  if (shuffles != nullptr && shuffles->is_boolean()) {
    if (shuffles->get<bool>()) spec.set_shuffle(fields.Read<uint64_t>("seed"));
  } else {
    fields.Missing("shuffle_shards");
  }
  position.set_dealt(fields.Read<int64_t>("dealt"));
  const CheckpointJson* undone = fields.Find("undone");
  if (undone == nullptr || !undone->is_array()) {
    fields.Missing("undone");
  } else {
    for (const CheckpointJson& number : *undone) {
      if (!Fields::IsIn<int64_t>(number)) {
        fields.Missing("undone");
        break;
      }
      position.add_undone(number.get<int64_t>());
    }
  }
  MILLRACE_RETURN_IF_ERROR(fields.status());
  MILLRACE_RETURN_IF_ERROR(CheckTaskPosition(position));
  return position;
}

}  // namespace millrace
