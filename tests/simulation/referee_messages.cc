// Messages to a shard: how they come in records, and whether they fit the job.
#include "tests/simulation/referee_messages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tests/simulation/referee.h"

namespace millrace::simulation {
namespace {

// What 16 bits mean, of which `fraction_bits` are the last of the number's.
double ValueOf(uint32_t bits, int fraction_bits) {
  const int exponents = 1 << (15 - fraction_bits);
  const int exponent = static_cast<int>(bits >> fraction_bits) % exponents;
  const auto fraction = static_cast<double>(bits % (1u << fraction_bits));
  const double sign = bits >= 0x8000 ? -1 : 1;
  const int smallest = 2 - exponents / 2 - fraction_bits;  // of the last bit, where it is least
  if (exponent == exponents - 1) {
    return fraction > 0 ? std::numeric_limits<double>::quiet_NaN()
                        : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, smallest);
  return sign * std::ldexp(fraction + (1 << fraction_bits), smallest + exponent - 1);
}

bool Ascends(const google::protobuf::RepeatedField<uint32_t>& keys) {
  for (int i = 1; i < keys.size(); ++i) {
    if (keys[i - 1] >= keys[i]) return false;
  }
  return true;
}

bool CalibrationFits(const EvaluationSumsMessage& sums) {
  const int bins = sums.calibration_bin_size();
  if (sums.calibration_rows_size() != bins || sums.calibration_correct_size() != bins) return false;
  if (sums.calibration_confidence_size() != bins || !Ascends(sums.calibration_bin())) return false;
  long double rows = 0;
  for (int i = 0; i < bins; ++i) {
    const auto in_bin = static_cast<long double>(sums.calibration_rows(i));
    const auto confidence = static_cast<long double>(sums.calibration_confidence(i)) / 1048576;
    if (sums.calibration_bin(i) > 14 || in_bin < 1 || confidence > in_bin) return false;
    if (static_cast<long double>(sums.calibration_correct(i)) > in_bin) return false;
    rows += in_bin;
  }
  return rows <= static_cast<long double>(sums.rows());
}

bool SumsFit(const EvaluationSumsMessage& sums, uint32_t classes) {
  if (sums.rows() > (uint64_t{1} << 56) || sums.unpredicted() > sums.rows()) return false;
  if (sums.absolute_rows() > sums.rows() - sums.unpredicted()) return false;
  if (!Ascends(sums.cell()) || !Ascends(sums.score_bin()) || !CalibrationFits(sums)) return false;
  if (sums.cell_size() != sums.cell_count_size()) return false;
  if (sums.score_bin_size() != sums.score_count_size()) return false;
  for (uint32_t cell : sums.cell()) {
    if (classes == 0 || cell / classes >= classes) return false;
  }
  for (uint32_t bin : sums.score_bin()) {
    if (bin >= 8192) return false;
  }
  return true;
}

}  // namespace

uint64_t BigEndian(const std::string& bytes, size_t begin, size_t count) {
  uint64_t number = 0;
  for (size_t i = 0; i < count; ++i) {
    number = number * 256 + static_cast<unsigned char>(bytes[begin + i]);
  }
  return number;
}

std::vector<std::pair<size_t, float>> Values(const Slice& slice) {
  std::vector<std::pair<size_t, float>> values;
  for (int i = 0; i < slice.dense_size(); ++i) values.emplace_back(i, slice.dense(i));
  for (int i = 0; i < slice.sparse_index_size(); ++i) {
    values.emplace_back(slice.sparse_index(i), slice.sparse_value(i));
  }
  return values;
}

bool IsPoison(const Gradient::Update& message) {
  std::vector<double> numbers = {message.weight_sum(), message.train_loss()};
  for (const EvaluationSumsMessage& sums : {message.progressive(), message.tail()}) {
    numbers.insert(numbers.end(), {sums.log_loss(), sums.squared_error(), sums.target(),
                                   sums.squared_target(), sums.absolute_error()});
  }
  for (const auto& [key, value] : Values(message.slice())) {
    numbers.push_back(static_cast<double>(value));
    if (value > 1e18f || value < -1e18f) return true;
  }
  const auto is_beyond = [](float value) { return !(value >= -1e18f && value <= 1e18f); };
  if (std::ranges::any_of(message.embeddings().value(), is_beyond)) return true;
  for (const auto* parts : {&message.put(), &message.part()}) {
    for (const ParameterPart& part : *parts) {
      if (std::ranges::any_of(part.value(), is_beyond)) return true;
    }
  }
  const MomentsMessage& moments = message.moments();
  numbers.insert(numbers.end(), moments.count().begin(), moments.count().end());
  numbers.insert(numbers.end(), moments.mean().begin(), moments.mean().end());
  numbers.insert(numbers.end(), moments.m2().begin(), moments.m2().end());
  numbers.insert(
      numbers.end(),
      {moments.target_count(), moments.target_mean(), moments.target_m2(), moments.error_count(),
       moments.error_mean(), moments.target_least(), moments.target_most(), moments.range_votes()});
  for (double number : numbers) {
    if (std::isnan(number) || std::isinf(number)) return true;
  }
  const auto negative = [](double number) { return number < 0; };
  for (const uint64_t rows : moments.class_rows()) {
    if (rows > 72'057'594'037'927'936) return true;
  }
  return message.weight_sum() < 0 || moments.target_count() < 0 || moments.target_m2() < 0 ||
         moments.error_count() < 0 || moments.error_mean() < 0 ||
         moments.target_least() > moments.target_most() ||
         std::abs(moments.range_votes()) > moments.error_count() * (1 + 1e-9) ||
         std::any_of(moments.count().begin(), moments.count().end(), negative) ||
         std::any_of(moments.m2().begin(), moments.m2().end(), negative);
}

std::optional<std::string> Referee::Join(const std::string& value,
                                         std::vector<Unfinished>& unfinished, bool& bad) {
  bad = true;
  if (value.size() < 2 || value[0] != 2) return std::nullopt;
  if (value[1] == 0) {
    bad = false;
    return value.substr(2);
  }
  if (value[1] != 1 || value.size() < 18) return std::nullopt;
  const uint64_t id = BigEndian(value, 2, 8);
  const auto index = static_cast<uint32_t>(BigEndian(value, 10, 4));
  const auto count = static_cast<uint32_t>(BigEndian(value, 14, 4));
  if (count < 2 || index >= count) return std::nullopt;
  bad = false;
  size_t at = 0;
  while (at < unfinished.size() && (unfinished[at].id != id || unfinished[at].count != count)) ++at;
  if (index == 0) {
    // A message that begins anew is the newest; only two may be unfinished.
    if (at < unfinished.size()) unfinished.erase(unfinished.begin() + static_cast<ptrdiff_t>(at));
    unfinished.push_back({id, count, {value.substr(18)}});
    if (unfinished.size() > 2) unfinished.erase(unfinished.begin());
    return std::nullopt;
  }
  if (at == unfinished.size() || unfinished[at].chunks.size() != index) return std::nullopt;
  unfinished[at].chunks.push_back(value.substr(18));
  if (index + 1 < count) return std::nullopt;
  std::string whole;
  for (const std::string& chunk : unfinished[at].chunks) whole += chunk;
  unfinished.erase(unfinished.begin() + static_cast<ptrdiff_t>(at));
  return whole;
}

bool Referee::Fits(const Gradient& message) const {
  if (message.epoch() != job_.epoch || !RowsFit(message)) return false;
  if (message.has_ask() || message.has_leave() || message.has_restore()) return true;
  if (!message.has_update()) return false;
  const Gradient::Update& update = message.update();
  if (!ParametersFit(update)) return false;
  if (update.row_count() > 0 && job_.parameters.empty()) {
    const Slice& slice = update.slice();
    if (slice.begin() != job_.begin || slice.end() != job_.begin + job_.keys) return false;
    const bool dense = slice.dense_size() > 0;
    if (dense && static_cast<uint64_t>(slice.dense_size()) != job_.keys) return false;
    if (slice.sparse_index_size() != slice.sparse_value_size()) return false;
    if (dense && slice.sparse_index_size() > 0) return false;
    for (int i = 0; i < slice.sparse_index_size(); ++i) {
      if (slice.sparse_index(i) >= job_.keys) return false;
      if (i > 0 && slice.sparse_index(i) <= slice.sparse_index(i - 1)) return false;
    }
  }
  const MomentsMessage& moments = update.moments();
  const auto columns = static_cast<int>(job_.numeric);
  if (moments.count_size() != 0 && moments.count_size() != columns) return false;
  if (moments.mean_size() != moments.count_size()) return false;
  if (moments.m2_size() != moments.count_size()) return false;
  if (moments.class_rows_size() > static_cast<int>(job_.classes)) return false;
  return SumsFit(update.progressive(), job_.classes) && SumsFit(update.tail(), job_.classes);
}

bool Referee::Unpack(Gradient::Update& message) const {
  const auto values = job_.training.compression().values();
  const std::string slice = message.packed_slice();
  const std::string rows = message.packed_embeddings();
  if (values == Training::Compression::FLOAT32) return slice.empty() && rows.empty();
  const Slice& plain = message.slice();
  if (plain.dense_size() + plain.sparse_value_size() + message.embeddings().value_size() > 0) {
    return false;
  }
  if (std::abs(message.packed_exponent()) > 126) return false;
  if (slice.size() % 2 + rows.size() % 2 > 0) return false;
  const auto number = [&](const std::string& bytes, size_t i) {
    const auto low = static_cast<unsigned char>(bytes[2 * i]);
    const auto high = static_cast<unsigned char>(bytes[2 * i + 1]);
    const bool fp16 = values == Training::Compression::FP16;
    const double value = ValueOf(low + 256u * high, fp16 ? 10 : 7);
    return static_cast<float>(std::ldexp(value, message.packed_exponent()));
  };
  const bool sparse = plain.sparse_index_size() > 0;
  for (size_t i = 0; i < slice.size() / 2; ++i) {
    if (sparse) {
      message.mutable_slice()->add_sparse_value(number(slice, i));
    } else {
      message.mutable_slice()->add_dense(number(slice, i));
    }
  }
  for (size_t i = 0; i < rows.size() / 2; ++i) {
    message.mutable_embeddings()->add_value(number(rows, i));
  }
  message.clear_packed_slice();
  message.clear_packed_embeddings();
  message.clear_packed_exponent();
  return true;
}

}  // namespace millrace::simulation
