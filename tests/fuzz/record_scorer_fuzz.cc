// Records of any bytes in every format that Predictor reads: each has one answer in its place, a
// prediction or a reason, as JSON that names its source; and the answers to several are those to
// each alone.
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "formats/json_text.h"
#include "kafka/options.h"
#include "predictor/record_scorer.h"
#include "tests/exports/small_models.h"
#include "tests/formats/avro_bytes.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/scratch_folder.h"
#include "tests/fuzz/target.h"

namespace millrace::fuzz {
namespace {

using nlohmann::json;
using Scored = RecordScorer::Scored;

constexpr std::string_view kSchema =
    R"({"type":"record","name":"R","fields":[{"name":"c","type":"string"},{"name":"a","type":
        ["null","double"]},{"name":"b","type":{"type":"bytes","logicalType":"decimal","precision":9,
        "scale":2}},{"name":"u","type":"long"},{"name":"y","type":"string"}]})";

// A way to read records, and values that it can read.
struct Way {
  RecordScorer::Options options;
  std::vector<std::string> values;
};

RecordScorer::Options AvroOptions() {
  static const ScratchFolder folder;
  static const std::atomic<bool> never = false;
  folder.Write("schema", kSchema);
  SourceFormat::Options format;
  format.kind = SourceFormat::Kind::kAvro;
  format.avro_schema_file = folder.Path("schema");
  format.registry.stop = &never;
  StatusOr<SourceFormat> made = SourceFormat::Create(JobConfig(), format, [](const auto&) {});
  MILLRACE_CHECK(made.ok());
  return {.format = RecordScorer::Format::kAvro,
          .avro = std::make_shared<const SourceFormat>(*std::move(made))};
}

std::vector<Way> AllWays() {
  using Format = RecordScorer::Format;
  const std::string row = R"({"a": 1.5, "b": null, "c": "x", "u": "7", "v": "8"})";
  const std::vector<std::string> objects = {
      row,
      std::string("\0\0\0\0\7", 5) + row,
      "{\"b\": -1e9,\r\n \"c\": \"\\u00e9\\n\", \"y\": \"class 1\", \"more\": [{}, true]}\n",
      R"([{"a": 1}, {"a": 2}])",
  };
  const std::vector<std::string> lines = {"8,7,x,,1.5,class 0", "8,7,\"x,\"\"\n\",2,-1e-3,\n"};
  const std::vector<std::string> columns = {"v", "u", "c", "b", "a", "y"};
  const std::string avro = AvroText("x") + AvroLong(1) + AvroFloat(1.5) +
                           AvroText(std::string("\xff\x01", 2)) + AvroLong(-7) + AvroText("y");
  return {
      {{.format = Format::kJson}, objects},
      {{.format = Format::kJson, .with_row = true}, objects},
      {{.format = Format::kCsv, .columns = columns}, lines},
      {{.format = Format::kCsv, .columns = columns, .with_row = true}, lines},
      {AvroOptions(), {avro}},
  };
}

struct Input {
  std::string key;
  std::optional<std::string> value;  // none: a tombstone
  std::vector<RecordHeader> headers{};

  ConsumedRecord Record(size_t at) const {
    ConsumedRecord record;
    record.partition = 3;
    record.offset = Offset(at);
    record.timestamp_ms = 1000;
    record.key = key;
    if (value) record.value = *value;
    record.headers = headers;
    return record;
  }
};

std::vector<Input> Inputs(const Way& way, ByteSource& bytes) {
  std::vector<Input> inputs;
  do {
    Input& input = inputs.emplace_back();
    if (bytes.Chance(16)) continue;
    if (bytes.Chance(64)) {
      input.value = bytes.Text();
    } else {
      input.value = way.values[bytes.Below(way.values.size())];
      if (bytes.Chance(192)) Mutate(*input.value, bytes);
    }
    // So large that an answer has no room.
    if (bytes.Chance(4)) input.key = std::string(kMaxRecordBytes - bytes.Below(256), 'k');
    if (bytes.Chance(16)) input.headers = {{"h", "1"}, {"null", {}}};
  } while (!bytes.empty() && inputs.size() < 5);
  return inputs;
}

void Check(const Scored& scored, const Input& input, size_t at, bool with_row) {
  MILLRACE_CHECK(scored.partition == 3 && scored.offset == Offset(at));
  MILLRACE_CHECK(scored.timestamp_ms == 1000);
  MILLRACE_CHECK((scored.kind == Scored::Kind::kTombstone) == !input.value.has_value());
  MILLRACE_CHECK(scored.value.has_value() == input.value.has_value());
  MILLRACE_CHECK(scored.key.value_or("").size() + scored.value.value_or("").size() <=
                 kMaxRecordBytes);
  if (!scored.value) return;
  MILLRACE_CHECK(!FindJsonError(*scored.value));
  const bool is_error = scored.kind == Scored::Kind::kError;
  const json answer = json::parse(*scored.value, nullptr, /*allow_exceptions=*/false);
  if (answer.is_discarded()) {
    // JSON allows larger numbers and other escapes than this parser.
    MILLRACE_CHECK(with_row && !is_error);
    return;
  }
  MILLRACE_CHECK(answer["source"]["offset"] == at);
  MILLRACE_CHECK(answer.contains("error") == is_error);
  MILLRACE_CHECK(answer.contains("class") != is_error);
  MILLRACE_CHECK(!is_error || !answer["error"].get<std::string>().empty());
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  static const auto model = std::make_shared<const ModelScorer>(
      RandomModel(DescriptionFor(ModelShape::NETWORK, 3, true), 1));
  static const std::vector<Way> ways = AllWays();
  const Way& way = ways[bytes.Below(ways.size())];
  const std::vector<Input> inputs = Inputs(way, bytes);
  RecordScorer together = RecordScorer::Create(model, way.options).value();
  RecordScorer alone = RecordScorer::Create(model, way.options).value();
  for (size_t i = 0; i < inputs.size(); ++i) {
    MILLRACE_CHECK(together.Add(inputs[i].Record(i)).ok());
  }
  MILLRACE_CHECK(together.records() == inputs.size());
  const std::span<const Scored> all = together.Score();
  MILLRACE_CHECK(all.size() == inputs.size());
  uint64_t rows = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Check(all[i], inputs[i], i, way.options.with_row);
    MILLRACE_CHECK(alone.Add(inputs[i].Record(i)).ok());
    const Scored& one = alone.Score().front();
    MILLRACE_CHECK(one.value == all[i].value && one.kind == all[i].kind && one.key == all[i].key);
    alone.Clear();
    rows += one.kind == Scored::Kind::kPrediction ? 1 : 0;
  }
  // (One whose answer has no room was a row, too.)
  MILLRACE_CHECK(together.rows() >= rows && together.rows() == alone.rows());
  MILLRACE_CHECK(together.EmptyColumns() == alone.EmptyColumns());
  MILLRACE_CHECK(together.last_reason() == alone.last_reason());
}

}  // namespace millrace::fuzz
