#include "kafka/client_log.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/line_sink.h"
#include "kafka/connection_trouble.h"

namespace millrace::kafka_internal {
namespace {

constexpr int kDebugLevel = 7;
constexpr std::chrono::seconds kQuietTime(30);
// What librdkafka mends by itself (a broker that has just come up) is told when it takes long.
constexpr std::chrono::seconds kRetryTime(5);
constexpr size_t kMaxKinds = 256;

// "[thrd:127.0.0.1:9092/1]: text" is only of interest with a debugger.
std::string_view WithoutThread(std::string_view text) {
  if (!text.starts_with("[thrd:")) return text;
  const size_t end = text.find("]: ");
  return end == std::string_view::npos ? text : text.substr(end + 3);
}

// Lines that differ in numbers only (times, offsets, counts) are repetitions.
std::string WithoutNumbers(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit) {
      result += c;
    } else if (result.empty() || result.back() != '#') {
      result += '#';
    }
  }
  return result;
}

}  // namespace

ClientLog::ClientLog(std::function<void(const std::string&)> print, std::function<Time()> now)
    : print_(std::move(print)), now_(std::move(now)) {}

ClientLog& ClientLog::OfProcess() {
  // Never destroyed: librdkafka's threads may outlive main().
  static auto& log = *new ClientLog(
      [](const std::string& line) {
        if (!GiveToLineSink(line)) std::fprintf(stderr, "%s\n", line.c_str());
      },
      [] { return std::chrono::steady_clock::now(); });
  return log;
}

void ClientLog::Line(int level, std::string_view kind, std::string_view text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (level >= kDebugLevel) {  // asked for by the setting `debug`
    print_(RedactLocked(absl::StrCat("kafka: ", View(kind), ": ", View(text))));
    return;
  }
  text = WithoutThread(text);
  // All clients get the same settings of the user; that a producer has no use for a consumer's is
  // no news.
  if (kind == "CONFWARN" && text.find("will be ignored by this") != std::string_view::npos) return;
  // What is not delivered at the end is told by those who know what it means.
  if (kind == "TERMINATE") return;
  // A consumer that stalled tells it when it polls again.
  if (kind == "MAXPOLL") return;
  // So does the reader of a topic that is deleted.
  if (kind == "PARTCNT") return;
  // A program that another one has replaced says so, and who has.
  if (text.find("fenced by a newer instance") != std::string_view::npos) return;
  if (kind == "FAIL") {
    ConnectionFailed(text);
  } else if (!outages_.empty() && text.find("transport failure") != std::string_view::npos) {
    return;  // what the outage does to one request or another
  } else {
    PrintOnceInAWhile(kind, text);
  }
}

void ClientLog::WarnOnce(std::string_view text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!told_.emplace(text).second) return;
  print_(RedactLocked(absl::StrCat("kafka: warning: ", View(text))));
}

// `text` is "127.0.0.1:9092/1: Connect to ipv4#127.0.0.1:9092 failed: Connection refused (after
// 0ms in state CONNECT)", with "/bootstrap" for an address that the user gave, or begins with
// "GroupCoordinator: 127.0.0.1:9092: ".
void ClientLog::ConnectionFailed(std::string_view text) {
  size_t colon = text.find(": ");
  if (colon == std::string_view::npos) return PrintOnceInAWhile("FAIL", text);
  std::string_view broker = text.substr(0, colon);
  std::string_view reason = text.substr(colon + 2);
  if (broker.ends_with("Coordinator")) {
    colon = reason.find(": ");
    if (colon == std::string_view::npos) return PrintOnceInAWhile("FAIL", text);
    broker = reason.substr(0, colon);
    reason = reason.substr(colon + 2);
  }
  if (const size_t scheme = broker.find("://"); scheme != std::string_view::npos) {
    broker = broker.substr(scheme + 3);
  }
  const size_t slash = broker.rfind('/');
  const std::string_view address = broker.substr(0, slash);
  reason = reason.substr(0, reason.rfind(" (after "));
  if (reason.starts_with("Connect to ")) {  // tells the numeric address, which changes
    const size_t failed = reason.find(" failed: ");
    if (failed != std::string_view::npos) reason = reason.substr(failed + 9);
  }

  auto [outage, began] = outages_.try_emplace(std::string(address));
  if (began) outage->second.since = now_();
  if (slash != std::string_view::npos && broker.substr(slash) == "/bootstrap") {
    outage->second.bootstrap = true;
  }
  // While a broker starts it drops connections; that is not worth a second line.
  if (!began && reason.starts_with("Disconnected")) return;
  const std::string explained = ExplainConnectionTrouble(reason);
  if (!outage->second.reasons.insert(WithoutNumbers(explained)).second) return;
  print_(RedactLocked(absl::StrCat("kafka: no connection to ", View(address), " (", explained,
                                   "); retrying until it is reachable")));
}

void ClientLog::BrokerUp(std::string_view host, int port) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (outages_.empty()) return;
  const std::string address = absl::StrCat(View(host), ":", port);
  bool ended = false;
  Time since = Time::max();
  for (auto outage = outages_.begin(); outage != outages_.end();) {
    if (outage->first == address || outage->second.bootstrap) {
      ended = true;
      since = std::min(since, outage->second.since);
      outage = outages_.erase(outage);
    } else {
      ++outage;
    }
  }
  if (!ended) return;
  const std::chrono::duration<double> seconds = now_() - since;
  print_(absl::StrFormat("kafka: connected to %s after %.1f s", address, seconds.count()));
}

void ClientLog::PrintOnceInAWhile(std::string_view kind, std::string_view text) {
  const Time now = now_();
  if (repeated_.size() > kMaxKinds) repeated_.clear();
  Repeated& entry = repeated_[absl::StrCat(View(kind), WithoutNumbers(text))];
  if (now - entry.last_seen > kQuietTime) entry.first_seen = now;
  entry.last_seen = now;
  const bool retries = text.find("retrying") != std::string_view::npos;
  if ((retries && now - entry.first_seen < kRetryTime) ||
      (entry.last_printed.has_value() && now - *entry.last_printed < kQuietTime)) {
    ++entry.suppressed;
    return;
  }
  std::string line = absl::StrCat("kafka: ", View(kind), ": ", View(text));
  if (entry.suppressed > 0) {
    absl::StrAppend(&line, " (and ", entry.suppressed, " more like it before)");
  }
  entry.last_printed = now;
  entry.suppressed = 0;
  print_(RedactLocked(std::move(line)));
}

void ClientLog::AddSecret(const std::string& value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // One or two letters would blot out every text, and are no secret.
  if (value.size() < 3 || std::ranges::find(secrets_, value) != secrets_.end()) return;
  secrets_.push_back(value);
  // A secret that contains another must be looked for first.
  std::ranges::sort(secrets_, [](const auto& a, const auto& b) { return a.size() > b.size(); });
}

std::string ClientLog::Redact(std::string text) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return RedactLocked(std::move(text));
}

std::string ClientLog::RedactLocked(std::string text) const {
  for (const std::string& secret : secrets_) {
    for (size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at + 3)) {
      text.replace(at, secret.size(), "***");
    }
  }
  return text;
}

}  // namespace millrace::kafka_internal
