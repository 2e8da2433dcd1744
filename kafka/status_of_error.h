// librdkafka's errors as Status values. Private to this folder.
#pragma once

#include <librdkafka/rdkafka.h>

#include <string_view>

#include "base/status.h"

namespace millrace::kafka_internal {

// "context: what librdkafka says"; OK for RD_KAFKA_RESP_ERR_NO_ERROR.
Status StatusOfError(rd_kafka_resp_err_t error, std::string_view context);

// The same, with a more telling text than the error's name.
Status StatusOfError(rd_kafka_resp_err_t error, std::string_view context, std::string_view detail);

// Takes the error over. Fatal: FailedPrecondition (marked when fenced); to be aborted: Aborted;
// retriable: Unavailable (KafkaProducer's transactions). Null is OK.
Status StatusOfTransactionError(rd_kafka_error_t* error, std::string_view context);

// Another producer with the same transactional.id has started.
bool IsFencing(rd_kafka_resp_err_t error);
// A permanent error: the broker would refuse the same record, or the same transaction, again.
bool RefusesForGood(rd_kafka_resp_err_t error);
// Permanent errors, which a consumer's Poll returns instead of logging them.
bool IsPermanent(rd_kafka_resp_err_t error);

}  // namespace millrace::kafka_internal
