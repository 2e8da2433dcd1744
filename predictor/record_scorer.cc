#include "predictor/record_scorer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "formats/csv_parser.h"
#include "formats/json_text.h"
#include "formats/text_beginning.h"
#include "kafka/options.h"
#include "producer/schema_header.h"

namespace millrace {
namespace {

using Scored = RecordScorer::Scored;

std::string JsonString(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string SourceJson(const Scored& record) {
  return absl::StrCat("\"source\":{\"partition\":", record.partition,
                      ",\"offset\":", int64_t{record.offset}, "}");
}

void SetError(std::string_view reason, Scored& record) {
  record.kind = Scored::Kind::kError;
  record.value = absl::StrCat("{\"error\":", JsonString(reason), ",", SourceJson(record), "}");
}

std::optional<std::string> Copy(std::string_view bytes) {
  if (bytes.data() == nullptr) return std::nullopt;
  return std::string(bytes);
}

// A record that nobody takes would stop its partition for ever.
void LimitBytes(Scored& record) {
  const size_t bytes = record.bytes();
  if (bytes <= kMaxRecordBytes) return;
  // A compacted topic takes no record without a key.
  constexpr size_t kMostKeyBytes = kMaxRecordBytes / 2;
  if (record.key && record.key->size() > kMostKeyBytes) record.key.reset();
  record.headers.clear();
  SetError(absl::StrCat("with its prediction it would have ", bytes, " bytes, more than ",
                        kMaxRecordBytes),
           record);
}

}  // namespace

size_t RecordScorer::Scored::bytes() const {
  constexpr size_t kAround = 10;  // lengths
  const auto size_of = [](const std::optional<std::string>& text) {
    return text ? text->size() : 0;
  };
  size_t bytes = size_of(key) + size_of(value);
  for (const Header& header : headers) {
    bytes += header.name.size() + size_of(header.value) + kAround;
  }
  return bytes;
}

StatusOr<RecordScorer> RecordScorer::Create(std::shared_ptr<const ModelScorer> model,
                                            Options options) {
  MILLRACE_ASSIGN_OR_RETURN(RowScorer rows, RowScorer::Create(std::move(model)));
  if (options.format != Format::kCsv) {
    const bool decimal_comma = rows.model().model().description.features().decimal_comma();
    std::vector<std::string> columns(rows.columns().begin(), rows.columns().end());
    CellDecoder decode = options.format == Format::kAvro
                             ? options.avro->MakeAvroDecoder(std::move(columns), decimal_comma)
                             : DecodeJson(std::move(columns), decimal_comma);
    return RecordScorer(std::move(options), std::move(rows), std::move(decode), false);
  }
  MILLRACE_ASSIGN_OR_RETURN(
      CellDecoder decode,
      DecodeCsv(options.columns, rows.encoder(), options.delimiter, CsvColumns::Label::kIfThere));
  const std::string& label = rows.encoder().required_columns()[0];
  const bool has_label = std::ranges::find(options.columns, label) != options.columns.end();
  return RecordScorer(std::move(options), std::move(rows), std::move(decode), has_label);
}

RecordScorer::RecordScorer(Options options, RowScorer rows, CellDecoder decode, bool has_label)
    : options_(std::move(options)),
      rows_(std::move(rows)),
      decode_(std::move(decode)),
      has_label_(has_label),
      text_(rows_.model().model().description.features()),
      has_value_(rows_.columns().size()) {}

// One line of valid JSON that can stand in another object.
StatusOr<std::string> RecordScorer::RowText(std::string_view value) const {
  if (options_.format == Format::kJson) {
    if (const auto headed = SplitSchemaHeader(value)) value = headed->body;
    // Members that the model does not read were not looked at so far.
    if (const std::optional<size_t> wrong = FindJsonError(value)) {
      return WithBeginning(
          absl::InvalidArgumentError(absl::StrCat("malformed JSON near byte ", *wrong,
                                                  ", in a member that the model does not read")),
          value);
    }
    std::string text(value);
    // Between members only: in a string they would not be valid.
    std::ranges::replace_if(
        text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
    return text;
  }
  CsvParser parser({}, options_.delimiter);
  parser.Feed(value);
  parser.Finish();
  CsvRecord record;
  parser.Next(&record);  // it was decoded before, so it has these columns
  std::string text = "{";
  for (size_t i = 0; i < record.fields.size(); ++i) {
    if (i > 0) text += ',';
    absl::StrAppend(&text, JsonString(options_.columns[i]), ":", JsonString(record.fields[i]));
  }
  return text + "}";
}

Status RecordScorer::AddRow(std::string_view value) {
  const size_t before = rows_.rows();
  bool is_empty = true;
  const auto take = [&](std::span<const std::string_view> cells) -> Status {
    // Else an array of very many would have to be kept until its end.
    if (rows_.rows() > before) return absl::InvalidArgumentError("a record has one row, an object");
    if (has_label_) cells = cells.subspan(1);
    MILLRACE_RETURN_IF_ERROR(rows_.Add(cells));
    for (size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].empty()) continue;
      has_value_[i] = true;
      is_empty = false;
    }
    return absl::OkStatus();
  };
  Status added = decode_(value, take);
  if (added.ok() && options_.with_row) {
    StatusOr<std::string> text = RowText(value);
    added = text.status();
    if (text.ok()) row_texts_.push_back(*std::move(text));
  }
  // An array of objects, say, is found to be none after its rows were taken.
  if (!added.ok()) {
    rows_.Shrink(before);
    return added;
  }
  NoteRow(is_empty, value);
  return added;
}

void RecordScorer::NoteRow(bool is_empty, std::string_view value) {
  ++empty_rows_.rows;
  if (!is_empty || empty_rows_.empty++ > 0) return;
  if (options_.format == Format::kAvro) empty_rows_.members = options_.avro->FieldNames(value);
  if (options_.format != Format::kJson) return;
  if (const auto headed = SplitSchemaHeader(value)) value = headed->body;
  empty_rows_.members = MemberNames(value);
}

bool RecordScorer::Use(std::shared_ptr<const ModelScorer> model) {
  if (!rows_.Fits(*model)) return false;
  rows_.Use(std::move(model));
  return true;
}

Status RecordScorer::Add(const ConsumedRecord& record) {
  const bool is_tombstone = record.value.data() == nullptr;
  Status added = is_tombstone ? absl::OkStatus() : AddRow(record.value);
  if (!added.ok() && !absl::IsInvalidArgument(added)) return added;
  bytes_ += record.value.size();
  Scored& scored = records_.emplace_back();
  scored.partition = record.partition;
  scored.offset = record.offset;
  scored.timestamp_ms = record.timestamp_ms;
  scored.key = Copy(record.key);
  for (const RecordHeader& header : record.headers) {
    scored.headers.push_back({std::string(header.name), Copy(header.value)});
  }
  if (is_tombstone) {
    scored.kind = Scored::Kind::kTombstone;
  } else if (!added.ok()) {
    last_reason_ = std::string(TextOf(added));
    SetError(last_reason_, scored);
  }
  return absl::OkStatus();
}

std::span<const Scored> RecordScorer::Score() {
  const std::span<const float> scores = rows_.Score();
  const size_t width = rows_.score_count();
  size_t row = 0;
  for (Scored& record : records_) {
    if (record.kind == Scored::Kind::kPrediction) {
      std::string value;
      text_.AppendJson(scores.subspan(row * width, width), &value);
      value.back() = ',';  // its brace
      value += SourceJson(record);
      if (options_.with_row) absl::StrAppend(&value, ",\"row\":", row_texts_[row]);
      value += '}';
      record.value = std::move(value);
      ++row;
    }
    LimitBytes(record);
  }
  return records_;
}

void RecordScorer::Clear() {
  rows_.Clear();
  records_.clear();
  row_texts_.clear();
  bytes_ = 0;
}

std::vector<std::string> RecordScorer::EmptyColumns() const {
  std::vector<std::string> empty;
  for (size_t i = 0; i < has_value_.size(); ++i) {
    if (!has_value_[i]) empty.push_back(rows_.columns()[i]);
  }
  return empty;
}

}  // namespace millrace
