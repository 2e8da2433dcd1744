#include "kafka/rebalance_watch.h"

#include <cstddef>
#include <cstdint>

namespace millrace::kafka_internal {
namespace {

constexpr char kName[] = "millrace-rebalance";
// Of Kafka's protocol.
constexpr int16_t kJoinGroup = 11;
constexpr int16_t kSyncGroup = 14;

// Both are called by librdkafka's threads.
rd_kafka_resp_err_t OnRequestSent(rd_kafka_t*, int, const char*, int32_t, int16_t api_key, int16_t,
                                  int32_t, size_t, void* joining) {
  if (api_key == kJoinGroup) *static_cast<std::atomic<bool>*>(joining) = true;
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t OnResponse(rd_kafka_t*, int, const char*, int32_t, int16_t api_key, int16_t,
                               int32_t, size_t, int64_t, rd_kafka_resp_err_t error, void* joining) {
  // (After an error of the connection it joins again.)
  const bool answered = api_key == kSyncGroup && error == RD_KAFKA_RESP_ERR_NO_ERROR;
  if (answered) *static_cast<std::atomic<bool>*>(joining) = false;
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

}  // namespace

void RebalanceWatch::AddTo(rd_kafka_conf_t* conf) {
  rd_kafka_conf_interceptor_add_on_new(conf, kName, &RebalanceWatch::OnNew, this);
}

rd_kafka_resp_err_t RebalanceWatch::OnNew(rd_kafka_t* client, const rd_kafka_conf_t*, void* self,
                                          char*, size_t) {
  auto* const joining = &static_cast<RebalanceWatch*>(self)->joining_;
  const rd_kafka_resp_err_t error =
      rd_kafka_interceptor_add_on_response_received(client, kName, &OnResponse, joining);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return error;
  return rd_kafka_interceptor_add_on_request_sent(client, kName, &OnRequestSent, joining);
}

}  // namespace millrace::kafka_internal
