// Explains why a connection fails, to the user who configures it. Private to this folder.
#pragma once

#include <string>
#include <string_view>

namespace millrace::kafka_internal {

// `reason` is the text of librdkafka and OpenSSL. For known reasons returns what was tried, which
// side is configured wrongly, and what to do; else `reason` itself.
std::string ExplainConnectionTrouble(std::string_view reason);

}  // namespace millrace::kafka_internal
