/* The library for trainers of one's own (millrace/parameter_manager.h, which says what the calls do
 * and which of them wait) for C, and for languages that call C. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call returns; those of millrace/status.h. */
enum MillraceCode {
  kMillraceOk = 0,
  kMillraceInvalidArgument = 1, /* also a null pointer, an unknown id, a wrong number of values */
  kMillraceFailedPrecondition = 2,
  kMillraceDeadlineExceeded = 3,
  kMillraceCancelled = 4, /* millrace_stop */
  kMillraceUnavailable = 5,
  kMillracePermissionDenied = 6,
  kMillraceDataLoss = 7,
  kMillraceInternal = 8
};

/* Used by one thread at a time, of the process that has connected: one that is forked must neither
 * use nor destroy it. */
typedef struct MillraceManager MillraceManager;

typedef struct MillraceShardRange {
  uint32_t shard;
  int64_t begin;
  int64_t end;
} MillraceShardRange;

typedef struct MillraceMember {
  const char* role;
  uint32_t rank;
  const char* instance;
  const char* address;
  int state; /* 0: live; 1: dead; 2: has left */
} MillraceMember;

/* Why the last call of this thread failed, until its next one. */
const char* millrace_error(void);

/* `master`: HOST:PORT of MasterApp --master-address, or null. `kafka`: keys and values of
 * librdkafka by turns, and a null behind them; or null. `timeout_s` 0: none. On success *manager is
 * to be given to millrace_destroy. */
int millrace_connect(const char* brokers, const char* job, uint64_t epoch, uint32_t trainers,
                     uint32_t trainer, double timeout_s, const char* master,
                     const char* const* kafka, MillraceManager** manager);
/* PEM files for answers that come straight from servers on other machines, as WorkerApp's
 * --answers-tls-cert and so on; null: none. `insecure`: also without mutual TLS,
 * in a network that you trust. */
typedef struct MillraceAnswersTls {
  const char* cert;
  const char* key;
  const char* ca;
  int insecure;
} MillraceAnswersTls;

/* The same with those. */
int millrace_connect_tls(const char* brokers, const char* job, uint64_t epoch, uint32_t trainers,
                         uint32_t trainer, double timeout_s, const char* master,
                         const char* const* kafka, const MillraceAnswersTls* answers,
                         MillraceManager** manager);
/* Null is nothing. */
void millrace_destroy(MillraceManager* manager);

/* Parameters and tables are numbered from 0, in the order in which they are registered. `handler`
 * null or "": that of ServerApp. */
int millrace_register(MillraceManager* manager, const char* name, const int64_t* shape,
                      size_t dimensions, const char* handler, double learning_rate_multiplier,
                      double decay_multiplier, int* id);

/* A table; it gets a number as parameters do. */
int millrace_register_table(MillraceManager* manager, const char* name, int64_t width,
                            const char* handler, double learning_rate_multiplier,
                            double decay_multiplier, double initial_scale, int* id);
/* `values`: `count` floats, ids times the width, row by row. `version` may be null. */
int millrace_get_rows(MillraceManager* manager, int id, const uint64_t* ids, size_t ids_count,
                      float* values, size_t count, uint64_t* version);
int millrace_collect_rows(MillraceManager* manager, int id, const uint64_t* ids, size_t ids_count,
                          float* values, size_t count, uint64_t* version);
int millrace_want_rows(MillraceManager* manager, int id, const uint64_t* ids, size_t ids_count);
/* `count`: of the gradient, as many as the last millrace_get_rows of the table has read. */
int millrace_update_rows(MillraceManager* manager, int id, const float* gradient, size_t count);

/* `count`: of the values, all of the parameter's. They are copied. */
int millrace_put(MillraceManager* manager, int id, const float* values, size_t count);
int millrace_update(MillraceManager* manager, int id, const float* gradient, size_t count);
/* `version` may be null. */
int millrace_get(MillraceManager* manager, int id, float* values, size_t count, uint64_t* version);
int millrace_collect(MillraceManager* manager, int id, float* values, size_t count,
                     uint64_t* version);

/* `steps` may be null. */
int millrace_step(MillraceManager* manager, double weight, uint64_t* steps);
int millrace_steps(MillraceManager* manager, uint64_t* steps);
/* The first `most` ranges; *count: how many there are. */
int millrace_shard(MillraceManager* manager, int id, MillraceShardRange* ranges, size_t most,
                   size_t* count);
int millrace_leave(MillraceManager* manager);

/* `trainers` 0: all of the job. */
int millrace_barrier(MillraceManager* manager, const char* name, uint32_t trainers);
/* The first `most` members; *count: how many there are. Their texts are there until the next call
 * of this function, or millrace_destroy. */
int millrace_members(MillraceManager* manager, MillraceMember* members, size_t most, size_t* count);

/* Not 0: ends the call that waits, and every one that would. 0: no longer. Of any thread. */
void millrace_stop(MillraceManager* manager, int stop);

/* See millrace/log.h. A line ends with a null. `log` null: nobody gets them. */
void millrace_set_log(void (*log)(const char* line, void* context), void* context);

#ifdef __cplusplus
}
#endif
