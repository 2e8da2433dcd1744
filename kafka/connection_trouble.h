// Why a connection fails, in words for who configures it. Private to this folder.
#pragma once

#include <string>
#include <string_view>

namespace millrace::kafka_internal {

// `reason` is what librdkafka and OpenSSL say. Where it is known what they mean: what was tried,
// which side is set wrong, and what to do; otherwise `reason` itself.
std::string ExplainConnectionTrouble(std::string_view reason);

}  // namespace millrace::kafka_internal
