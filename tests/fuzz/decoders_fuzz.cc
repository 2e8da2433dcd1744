// Records of any bytes, each given to a decoder of each topic: refused with a reason, or a message
// that is valid, and the same after it is written and read again.
#include <algorithm>
#include <optional>
#include <string>

#include "base/big_endian.h"
#include "base/check.h"
#include "messages/records.pb.h"
#include "tasks/state_codec.h"
#include "tests/fuzz/fuzz_job.h"
#include "tests/fuzz/target.h"
#include "tests/simulation/scenario.h"
#include "topics/frame.h"
#include "topics/gradient_codec.h"
#include "topics/message_codec.h"
#include "topics/metric_point_codec.h"
#include "topics/row_codec.h"
#include "topics/weights_codec.h"

namespace millrace::fuzz {
namespace {

std::string Bytes(const google::protobuf::MessageLite& message) {
  StatusOr<std::string> bytes = SerializeMessage(message);
  MILLRACE_CHECK(bytes.ok());
  return *std::move(bytes);
}

std::string Framed(const google::protobuf::MessageLite& message) {
  return MakeFrames(Bytes(message), 0).front();
}

void CheckReason(const Status& status) {
  MILLRACE_CHECK(!status.ok() && !status.message().empty());
}

// The key that would fit the value, if it is whole.
InputKey KeyOf(std::string_view value) {
  InputRecord record;
  const StatusOr<Frame> frame = ParseFrame(value);
  if (!frame.ok() || !ParseMessage(frame->body, record).ok()) return {.first = 0, .count = 1};
  const uint64_t first = record.has_flush() ? record.flush().row_count() : record.end().row_count();
  return {RowNumber(first), record.rows().row_count()};
}

void DecodeRows(const simulation::Scenario& job, std::string_view value) {
  const InputKey key = KeyOf(value);
  InputRecord record;
  const Status decoded = DecodeInput(key, value, job.shape(), record);
  if (!decoded.ok()) return CheckReason(decoded);
  MILLRACE_CHECK(record.has_rows() + record.has_flush() + record.has_end() == 1);
  InputRecord again;
  MILLRACE_CHECK(DecodeInput(key, Framed(record), job.shape(), again).ok());
  MILLRACE_CHECK(Bytes(again) == Bytes(record));
  if (!record.has_rows()) return;
  RowBatchReader reader;
  reader.Begin(record.rows(), job.shape());
  Row row;
  for (uint32_t left = key.count; left > 0; --left) {
    if (const Status usable = reader.Next(row); !usable.ok()) {
      CheckReason(usable);
      continue;
    }
    MILLRACE_CHECK(row.numeric.size() == job.numeric && row.ids.size() == job.ids);
    MILLRACE_CHECK(row.label < std::max<size_t>(job.classes, 1));  // a regression has no classes
    MILLRACE_CHECK(row.index.size() == row.value.size());
    InputRecord alone;
    Row same;
    MILLRACE_CHECK(DecodeRow(EncodeRow(row), job.shape(), alone, same).ok());
    MILLRACE_CHECK(same.index == row.index && same.value == row.value && same.ids == row.ids);
  }
}

void DecodeGradient(const simulation::Scenario& job, std::string_view value) {
  const ServerOptions options = simulation::MakeServerOptions(job, 0);
  const GradientShape shape = GradientShapeFrom(options);
  for (const WorkerId worker : {WorkerId{0}, WorkerId{1}, kNoWorker}) {
    GradientDecoder decoder(shape);
    const auto decoded = decoder.Decode(EncodeBigEndian32(worker), value);
    ShardState state;
    decoder.Save(state);
    GradientDecoder restored(shape);
    MILLRACE_CHECK(restored.Load(state).ok());
    if (!decoded.ok()) {
      CheckReason(decoded.status());
      continue;
    }
    if (!*decoded) continue;
    MILLRACE_CHECK(state.partial().empty());
    MILLRACE_CHECK(CheckGradient(**decoded, shape).ok() && (*decoded)->worker() == worker);
    Gradient again;
    MILLRACE_CHECK(ParseMessage(Bytes(**decoded), again).ok());
    MILLRACE_CHECK(CheckGradient(again, shape).ok() && Bytes(again) == Bytes(**decoded));
  }
}

void DecodeAnswer(const simulation::Scenario& job, std::string_view value) {
  const StatusOr<Frame> frame = ParseFrame(value);
  if (!frame.ok()) return CheckReason(frame.status());
  const ServerOptions options = simulation::MakeServerOptions(job, 0);
  const WeightsShape shape = {
      .job = options.job,
      .epoch = options.epoch,
      .shards = options.shards,
      .workers = options.workers,
      .parameters = simulation::MakeModel(job)->parameter_count(),
      .numeric_columns = options.numeric_columns,
      .row_width = options.embeddings ? options.embeddings->width() : 0,
  };
  if (const StatusOr<SharedWeights> shared = DecodeSharedWeights(frame->body, shape); shared.ok()) {
    for (WorkerId worker = 0; worker < shape.workers; ++worker) {
      const std::optional<Weights> answer = AnswerFrom(*shared, worker);
      MILLRACE_CHECK(!answer || DecodeWeights(Bytes(*answer), shape).ok());
    }
  }
  const StatusOr<Weights> decoded = DecodeWeights(frame->body, shape);
  if (!decoded.ok()) return CheckReason(decoded.status());
  MILLRACE_CHECK(decoded->shard() < shape.shards);
  const StatusOr<Weights> again = DecodeWeights(Bytes(*decoded), shape);
  MILLRACE_CHECK(again.ok() && Bytes(*again) == Bytes(*decoded));
}

void DecodeSavedState(std::string_view value) {
  const StatusOr<ShardState> decoded = DecodeState(value);
  if (!decoded.ok()) return CheckReason(decoded.status());
  const std::string bytes = Bytes(*decoded);
  const auto pieces = EncodeState(*decoded);
  MILLRACE_CHECK(pieces.ok());
  std::string joined;
  for (const std::string& piece : *pieces) joined += piece;
  const StatusOr<ShardState> again = DecodeState(joined);
  MILLRACE_CHECK(again.ok() && Bytes(*again) == bytes);
}

void DecodePoint(std::string_view value) {
  const StatusOr<MetricPoint> decoded = DecodeMetricPoint(value);
  if (!decoded.ok()) return CheckReason(decoded.status());
  const StatusOr<MetricPoint> again = DecodeMetricPoint(Framed(*decoded));
  MILLRACE_CHECK(again.ok() && Bytes(*again) == Bytes(*decoded));
}

}  // namespace

// The first byte chooses a job, the rest is a record.
void FuzzOne(ByteSource& bytes) {
  const std::string_view input = bytes.Rest();
  if (input.empty()) return;
  const simulation::Scenario job = DrawJob(static_cast<uint8_t>(input.front()));
  const std::string_view value = input.substr(1);
  DecodeRows(job, value);
  DecodeGradient(job, value);
  DecodeAnswer(job, value);
  DecodeSavedState(value);
  DecodePoint(value);
}

}  // namespace millrace::fuzz
