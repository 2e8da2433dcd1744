// librdkafka's log for users: one line when a broker becomes unreachable, one when it is back, and
// no line twice in a short time. Private to this folder.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace::kafka_internal {

// For Abseil's functions: in Debian's package absl::string_view is not std::string_view.
inline absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Thread-safe: librdkafka's threads call it. All clients of a process share one, since they all
// notice the same outage.
class ClientLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr int kWarning = 4;  // syslog's level

  ClientLog(std::function<void(const std::string& line)> print, std::function<Time()> now);
  // Prints to stderr, or to the process's LineSink; lives as long as the process.
  static ClientLog& OfProcess();

  // A log line: syslog level, librdkafka's name of the kind, text.
  void Line(int level, std::string_view kind, std::string_view text);
  void Warn(std::string_view text) { Line(kWarning, "warning", text); }
  // Of what stays as it is: the same text is told once, however often it is found to be so.
  void WarnOnce(std::string_view text);
  // To be called when a connection to a broker is established.
  void BrokerUp(std::string_view host, int port);

  // Values that are never shown, in lines here or in errors that go through Redact.
  void AddSecret(const std::string& value);
  std::string Redact(std::string text) const;

 private:
  struct Outage {
    Time since;
    bool bootstrap = false;         // the address that the user gave; brokers call themselves
                                    // by another, so any broker's return ends it
    std::set<std::string> reasons;  // logged already
  };
  struct Repeated {
    Time first_seen;
    Time last_seen;
    std::optional<Time> last_printed;
    size_t suppressed = 0;
  };

  void ConnectionFailed(std::string_view text);
  void PrintOnceInAWhile(std::string_view kind, std::string_view text);
  std::string RedactLocked(std::string text) const;

  const std::function<void(const std::string&)> print_;
  const std::function<Time()> now_;
  mutable std::mutex mutex_;
  std::map<std::string, Outage, std::less<>> outages_;     // by host:port
  std::map<std::string, Repeated, std::less<>> repeated_;  // by the text without its numbers
  std::set<std::string, std::less<>> told_;                // by WarnOnce
  std::vector<std::string> secrets_;
};

}  // namespace millrace::kafka_internal
