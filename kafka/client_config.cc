#include "kafka/client_config.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/printable.h"
#include "kafka/client_log.h"
#include "kafka/topic_presence.h"

namespace millrace::kafka_internal {
namespace {

// A wrong value here would lose, skip or double records in silence; librdkafka has no say in what
// Millrace promises.
constexpr std::array<std::string_view, 15> kReserved = {"auto.offset.reset",
                                                        "acks",
                                                        "max.in.flight",
                                                        "max.in.flight.requests.per.connection",
                                                        "request.required.acks",
                                                        "enable.gapless.guarantee",
                                                        "isolation.level",
                                                        "enable.auto.commit",
                                                        "auto.commit.enable",
                                                        "enable.auto.offset.store",
                                                        "enable.partition.eof",
                                                        "enable.idempotence",
                                                        "group.id",
                                                        "transactional.id",
                                                        "partition.assignment.strategy"};

bool IsSecret(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const char* part : {"password", "secret", "oauthbearer", "key.pem", "jaas", "token"}) {
    if (absl::StrContains(lower, part)) return true;
  }
  return false;
}

// Lines on a terminal or in an error stay short.
std::string Shown(const std::string& value) {
  return value.size() <= 80 ? value : absl::StrCat(value.substr(0, 77), "...");
}

Status Set(rd_kafka_conf_t* conf, const std::string& name, const std::string& value) {
  // (librdkafka would see what is before it.)
  if (name.find('\0') != std::string::npos || value.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("Kafka setting '", Printable(name), "' has a NUL character: leave it out"));
  }
  std::array<char, 512> text{};
  switch (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), text.data(), text.size())) {
    case RD_KAFKA_CONF_OK:
      return absl::OkStatus();
    case RD_KAFKA_CONF_UNKNOWN:
      // The value is not shown: who misspells sasl.password did not mean to tell it.
      return absl::InvalidArgumentError(
          absl::StrCat("Kafka setting '", name, "': librdkafka has no such setting"));
    default:
      if (IsSecret(name)) {
        return absl::InvalidArgumentError(
            absl::StrCat("Kafka setting '", name, "' has an invalid value (not shown)"));
      }
      return absl::InvalidArgumentError(
          absl::StrCat("Kafka setting '", name, "' cannot be '", Shown(value), "': ", text.data()));
  }
}

void RememberSecret(const std::string& name, const std::string& value) {
  ClientLog& log = ClientLog::OfProcess();
  log.AddSecret(value);
  if (!absl::StrContains(name, "oauthbearer")) return;
  // librdkafka complains of parts of these.
  for (const absl::string_view word : absl::StrSplit(value, ' ')) {
    log.AddSecret(std::string(word));
  }
}

void OnLog(const rd_kafka_t*, int level, const char* kind, const char* text) {
  ClientLog::OfProcess().Line(level, kind, text);
}

void OnError(rd_kafka_t*, int code, const char* text, void*) {
  switch (static_cast<rd_kafka_resp_err_t>(code)) {
    // Log lines of the kinds FAIL and FATAL have told it.
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__RESOLVE:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR__SSL:
    case RD_KAFKA_RESP_ERR__FATAL:
      return;
    // Readers look whether it is still there, and tell.
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
      TopicPresence::NoteUnknownTopic();
      return;
    default:
      ClientLog::OfProcess().Line(3, rd_kafka_err2name(static_cast<rd_kafka_resp_err_t>(code)),
                                  text);
  }
}

rd_kafka_resp_err_t OnBrokerState(rd_kafka_t*, int32_t, const char*, const char* host, int port,
                                  const char* state, void*) {
  if (std::string_view(state) == "UP") ClientLog::OfProcess().BrokerUp(host, port);
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t OnNew(rd_kafka_t* client, const rd_kafka_conf_t*, void*, char*, size_t) {
  return rd_kafka_interceptor_add_on_broker_state_change(client, "millrace", &OnBrokerState,
                                                         nullptr);
}

// When rd_kafka_new() fails late, 2.0.2 has freed the interceptors of a configuration that is still
// its caller's, so that destroying it would free them twice. It is kept instead: a program with
// such settings ends anyway.
void Bury(Handle<rd_kafka_conf_t> conf) {
  static std::mutex mutex;
  static auto& graves = *new std::vector<Handle<rd_kafka_conf_t>>;
  const std::lock_guard<std::mutex> lock(mutex);
  graves.push_back(std::move(conf));
}

bool UsesTokens(const rd_kafka_conf_t* conf) {
  std::array<char, 64> value{};
  size_t size = value.size();
  return rd_kafka_conf_get(conf, "sasl.mechanisms", value.data(), &size) == RD_KAFKA_CONF_OK &&
         absl::EqualsIgnoreCase(value.data(), "OAUTHBEARER");
}

}  // namespace

StatusOr<Handle<rd_kafka_conf_t>> MakeConfiguration(const KafkaOptions& kafka,
                                                    const std::string& client_id,
                                                    const Settings& ours) {
  Handle<rd_kafka_conf_t> conf(rd_kafka_conf_new());
  rd_kafka_conf_set_log_cb(conf.get(), &OnLog);
  rd_kafka_conf_set_error_cb(conf.get(), &OnError);
  rd_kafka_conf_interceptor_add_on_new(conf.get(), "millrace", &OnNew, nullptr);

  const Settings shared = {
      {"bootstrap.servers", kafka.brokers},
      {"client.id", client_id},
      // The default (10 s) would leave everyone idle long after a broker is back.
      {"reconnect.backoff.ms", "50"},
      {"reconnect.backoff.max.ms", "500"},
      {"topic.metadata.refresh.fast.interval.ms", "100"},
      {"socket.keepalive.enable", "true"},
      {"socket.nagle.disable", "true"},
      // Closing an idle connection is no event; a failed attempt to connect again is told.
      {"log.connection.close", "false"},
  };
  for (const auto& [name, value] : shared) MILLRACE_RETURN_IF_ERROR(Set(conf.get(), name, value));
  for (const auto& [name, value] : ours) MILLRACE_RETURN_IF_ERROR(Set(conf.get(), name, value));
  for (const auto& [name, value] : kafka.settings) {
    if (IsSecret(name)) RememberSecret(name, value);
    if (name == "bootstrap.servers" || name == "metadata.broker.list") {
      return absl::InvalidArgumentError(
          absl::StrCat("Kafka setting '", name, "': give --brokers HOST:PORT (brokers) instead"));
    }
    if (std::ranges::find(kReserved, name) != kReserved.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Kafka setting '", name, "' is Millrace's own: another value would lose records"));
    }
    MILLRACE_RETURN_IF_ERROR(Set(conf.get(), name, value));
  }
  return conf;
}

StatusOr<Handle<rd_kafka_t>> MakeClient(rd_kafka_type_t type, Handle<rd_kafka_conf_t> conf) {
  // Else tokens would only be fetched while somebody polls this client.
  const bool tokens = UsesTokens(conf.get());
  if (tokens) rd_kafka_conf_enable_sasl_queue(conf.get(), 1);
  std::array<char, 512> text{};
  Handle<rd_kafka_t> client(rd_kafka_new(type, conf.get(), text.data(), text.size()));
  if (client == nullptr) {
    Bury(std::move(conf));
    return absl::InvalidArgumentError(ClientLog::OfProcess().Redact(
        absl::StrCat("Kafka settings do not fit together: ", text.data())));
  }
  static_cast<void>(conf.release());  // the client's now
  if (tokens) {
    const Handle<rd_kafka_error_t> error(rd_kafka_sasl_background_callbacks_enable(client.get()));
    if (error != nullptr) {
      return absl::InvalidArgumentError(
          ClientLog::OfProcess().Redact(rd_kafka_error_string(error.get())));
    }
  }
  return client;
}

Settings ConsumerSettings(const ConsumerOptions& options, size_t queue_kbytes) {
  return {
      // A position outside the log is never mended in silence.
      {"auto.offset.reset", "error"},
      {"enable.auto.commit", "false"},
      {"enable.auto.offset.store", "false"},
      {"enable.partition.eof", "true"},
      // A record that a disk or a cable has damaged is an error, and no row.
      {"check.crcs", "true"},
      {"isolation.level", options.read_committed ? "read_committed" : "read_uncommitted"},
      {"fetch.wait.max.ms", absl::StrCat(options.fetch_wait.count())},
      {"fetch.error.backoff.ms", "50"},
      {"queued.max.messages.kbytes", absl::StrCat(queue_kbytes)},
      {"queued.min.messages", absl::StrCat(QueueRecords(queue_kbytes))},
  };
}

size_t QueueRecords(size_t queue_kbytes) { return std::max<size_t>(queue_kbytes * 2, 2000); }

}  // namespace millrace::kafka_internal
