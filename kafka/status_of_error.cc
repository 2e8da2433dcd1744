#include "kafka/status_of_error.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_marks.h"
#include "kafka/client_log.h"
#include "kafka/rdkafka_handles.h"

namespace millrace::kafka_internal {
namespace {

constexpr char kAclRemedy[] = " (this program's Kafka user lacks an ACL: see docs/security.md)";
constexpr char kSessionRemedy[] =
    " (--session-timeout is outside of what the brokers allow: group.min.session.timeout.ms, 6 s "
    "as Kafka comes, to group.max.session.timeout.ms, 30 minutes)";
constexpr char kGoneRemedy[] =
    " (if it was deleted, stop the programs of this job and start a new one: another --job)";

absl::StatusCode CodeOf(rd_kafka_resp_err_t error) {
  switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      return absl::StatusCode::kOk;
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE:
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
      return absl::StatusCode::kDeadlineExceeded;
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__RESOLVE:
    case RD_KAFKA_RESP_ERR__WAIT_COORD:
    case RD_KAFKA_RESP_ERR__RETRY:
    case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION:
    case RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION:
    case RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS:
    case RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NOT_COORDINATOR:
    case RD_KAFKA_RESP_ERR_NOT_CONTROLLER:
    case RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS:
    case RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND:
    case RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR:
    case RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT:
      return absl::StatusCode::kUnavailable;
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
      return absl::StatusCode::kNotFound;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
      return absl::StatusCode::kPermissionDenied;
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
      return absl::StatusCode::kUnauthenticated;
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
      return absl::StatusCode::kOutOfRange;
    case RD_KAFKA_RESP_ERR__FATAL:
    case RD_KAFKA_RESP_ERR__FENCED:
    case RD_KAFKA_RESP_ERR__STATE:
    case RD_KAFKA_RESP_ERR_PRODUCER_FENCED:
    case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH:
    case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
      return absl::StatusCode::kFailedPrecondition;
    case RD_KAFKA_RESP_ERR__QUEUE_FULL:
      return absl::StatusCode::kResourceExhausted;
    case RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS:
      return absl::StatusCode::kAlreadyExists;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR__INVALID_ARG:
    case RD_KAFKA_RESP_ERR_INVALID_CONFIG:
    case RD_KAFKA_RESP_ERR_INVALID_PARTITIONS:
    case RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR:
    case RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kInternal;
  }
}

// A controller that has not heard of any broker for a while says this of each topic that is to be
// made, by the error that also stands for a number of replicas that cannot be; only the text tells
// them apart.
bool AreBrokersAway(rd_kafka_resp_err_t error, std::string_view detail) {
  return error == RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR &&
         detail.find("brokers are currently fenced") != std::string_view::npos;
}

const char* RemedyOf(rd_kafka_resp_err_t error) {
  if (error == RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT) return kSessionRemedy;
  switch (CodeOf(error)) {
    case absl::StatusCode::kPermissionDenied:
      return kAclRemedy;
    case absl::StatusCode::kNotFound:
      return kGoneRemedy;
    default:
      return "";
  }
}

}  // namespace

Status StatusOfError(rd_kafka_resp_err_t error, std::string_view context) {
  return StatusOfError(error, context, rd_kafka_err2str(error));
}

Status StatusOfError(rd_kafka_resp_err_t error, std::string_view context, std::string_view detail) {
  const absl::StatusCode code =
      AreBrokersAway(error, detail) ? absl::StatusCode::kUnavailable : CodeOf(error);
  return Status(code, ClientLog::OfProcess().Redact(
                          absl::StrCat(View(context), ": ", View(detail), RemedyOf(error))));
}

Status StatusOfTransactionError(rd_kafka_error_t* error, std::string_view context) {
  if (error == nullptr) return absl::OkStatus();
  const Handle<rd_kafka_error_t> owner(error);
  const std::string text = ClientLog::OfProcess().Redact(
      absl::StrCat(View(context), ": ", rd_kafka_error_string(error)));
  const rd_kafka_resp_err_t code = rd_kafka_error_code(error);
  if (IsFencing(code)) return MarkFenced(absl::FailedPreconditionError(text));
  if (rd_kafka_error_is_fatal(error)) return absl::FailedPreconditionError(text);
  Status status(CodeOf(code), text);
  if (rd_kafka_error_txn_requires_abort(error)) {
    status = absl::AbortedError(text);
  } else if (rd_kafka_error_is_retriable(error)) {
    return absl::UnavailableError(text);
  }
  return RefusesForGood(code) ? MarkPermanent(std::move(status)) : status;
}

bool IsFencing(rd_kafka_resp_err_t error) {
  switch (error) {
    case RD_KAFKA_RESP_ERR__FENCED:
    case RD_KAFKA_RESP_ERR_PRODUCER_FENCED:
    case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH:
      return true;
    default:
      return false;
  }
}

bool RefusesForGood(rd_kafka_resp_err_t error) {
  switch (error) {
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
    case RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT:
      return true;
    default:
      return false;
  }
}

bool IsPermanent(rd_kafka_resp_err_t error) {
  switch (error) {
    case RD_KAFKA_RESP_ERR__FATAL:
    case RD_KAFKA_RESP_ERR__FENCED:
    case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT:
    case RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL:
      return true;
    default:
      return false;
  }
}

}  // namespace millrace::kafka_internal
