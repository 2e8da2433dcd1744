#include "producer/time_value.h"

#include <cmath>
#include <cstdint>

#include "features/number.h"

namespace millrace {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr double kFirstMilliseconds = 1e11;
// Beyond the year 9999 nothing is a time; and microseconds stay far inside 64 bits.
constexpr double kMaxSeconds = 2.6e11;

// Takes text from the front; once something is missing, ok() stays false.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool ok() const { return ok_; }
  bool done() const { return text_.empty(); }
  bool Peek(char c) const { return !text_.empty() && text_[0] == c; }
  bool Accept(char c) {
    if (!Peek(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void Expect(char c) { ok_ = Accept(c) && ok_; }
  bool PeekDigit() const { return !text_.empty() && text_[0] >= '0' && text_[0] <= '9'; }

  // Exactly so many digits.
  int Digits(int count) {
    int value = 0;
    for (int i = 0; i < count; ++i) {
      if (!PeekDigit()) {
        ok_ = false;
        return 0;
      }
      value = value * 10 + (text_[0] - '0');
      text_.remove_prefix(1);
    }
    return value;
  }
  int DigitsUpTo(int count, int max) {
    const int value = Digits(count);
    if (value > max) ok_ = false;
    return value;
  }

  // At least one digit; what is finer than a microsecond is cut off.
  microseconds Fraction() {
    if (!PeekDigit()) ok_ = false;
    int64_t value = 0;
    int64_t unit = 100'000;
    for (; PeekDigit(); text_.remove_prefix(1), unit /= 10) value += (text_[0] - '0') * unit;
    return microseconds(value);
  }

 private:
  std::string_view text_;
  bool ok_ = true;
};

microseconds Zone(Reader& in) {
  if (in.Accept('Z') || in.Accept('z')) return microseconds(0);
  const bool east = in.Peek('+');
  if (!in.Accept('+') && !in.Accept('-')) return microseconds(0);
  microseconds offset = hours(in.DigitsUpTo(2, 23));
  if (in.Accept(':') || in.PeekDigit()) offset += minutes(in.DigitsUpTo(2, 59));
  return east ? -offset : offset;
}

std::optional<RecordedTime> ParseIso(std::string_view text) {
  Reader in(text);
  const std::chrono::year year(in.Digits(4));
  in.Expect('-');
  const std::chrono::month month(static_cast<unsigned>(in.Digits(2)));
  in.Expect('-');
  const std::chrono::day day(static_cast<unsigned>(in.Digits(2)));
  const std::chrono::year_month_day date(year, month, day);
  if (!in.ok() || !date.ok()) return std::nullopt;
  microseconds time = std::chrono::sys_days(date).time_since_epoch();
  if (in.Accept('T') || in.Accept('t') || in.Accept(' ')) {
    time += hours(in.DigitsUpTo(2, 23));
    in.Expect(':');
    time += minutes(in.DigitsUpTo(2, 59));
    if (in.Accept(':')) {
      time += seconds(in.DigitsUpTo(2, 60));  // 60: a leap second
      if (in.Accept('.')) time += in.Fraction();
    }
    time += Zone(in);
  }
  if (!in.ok() || !in.done()) return std::nullopt;
  return time;
}

}  // namespace

std::optional<RecordedTime> ParseTime(std::string_view text) {
  double number;
  if (ParseNumber(text, &number) == NumberKind::kNumber) {
    if (std::abs(number) >= kFirstMilliseconds) number /= 1000;
    if (!(std::abs(number) < kMaxSeconds)) return std::nullopt;
    return RecordedTime(std::llround(number * 1e6));
  }
  return ParseIso(text);
}

}  // namespace millrace
