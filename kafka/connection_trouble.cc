#include "kafka/connection_trouble.h"

#include <array>

namespace millrace::kafka_internal {
namespace {

struct Explanation {
  std::string_view part;  // of what is said
  std::string_view meaning;
};

constexpr std::string_view kNoTlsThere =
    "TLS was tried, but this port does not speak it: connect to the brokers' TLS port, or leave "
    "--kafka security.protocol=SSL (or SASL_SSL) out";

// The first that fits counts.
constexpr std::array<Explanation, 14> kExplanations = {{
    {"wrong version number", kNoTlsThere},
    {"connecting to a PLAINTEXT broker listener", kNoTlsThere},
    {"connecting to a SSL listener",
     "the broker closed a connection without TLS: if this port is one for TLS, give --kafka "
     "security.protocol=SSL (or SASL_SSL)"},
    {"alert certificate required",
     "the broker requires a client certificate: give --kafka ssl.certificate.location=FILE and "
     "ssl.key.location=FILE"},
    {"alert unknown ca",
     "the broker does not trust this program's certificate: give one that the broker's CA signed "
     "(--kafka ssl.certificate.location=FILE), or add its CA to the broker's truststore"},
    {"alert bad certificate",
     "the broker refuses this program's certificate: give one that the broker's CA signed (--kafka "
     "ssl.certificate.location=FILE)"},
    {"certificate verify failed",
     "the broker's certificate is not trusted by this program, or is issued to another host name: "
     "give --kafka ssl.ca.location=FILE, the CA that signed it, and in --brokers the host name of "
     "the certificate"},
    {"no protocols available",
     "this program and the broker have no version of TLS in common: allow TLSv1.2 or later on the "
     "broker (ssl.enabled.protocols)"},
    {"alert handshake failure",
     "this program and the broker have no cipher of TLS in common, or the broker wants a "
     "certificate: look at ssl.cipher.suites and ssl.client.auth of the broker"},
    {"invalid credentials with SASL mechanism SCRAM",
     "the broker refuses this user or password (--kafka sasl.username, sasl.password); but Kafka 4 "
     "refuses every login by SCRAM of librdkafka before 2.6.1: give --kafka sasl.mechanism=PLAIN, "
     "over TLS"},
    {"invalid credentials",
     "the broker refuses this user or password: check --kafka sasl.username, sasl.password and "
     "sasl.mechanism"},
    {"Invalid username or password",
     "the broker refuses this user or password: check --kafka sasl.username and sasl.password"},
    {"Unsupported SASL mechanism",
     "the broker does not support this SASL mechanism: give --kafka sasl.mechanism=NAME, one of "
     "those in the broker's sasl.enabled.mechanisms"},
    {"unexpected in state",
     "the broker's port and this program disagree about SASL: give the --kafka security.protocol "
     "of that port"},
}};

}  // namespace

std::string ExplainConnectionTrouble(std::string_view reason) {
  for (const Explanation& known : kExplanations) {
    if (reason.find(known.part) != std::string_view::npos) return std::string(known.meaning);
  }
  return std::string(reason);
}

}  // namespace millrace::kafka_internal
