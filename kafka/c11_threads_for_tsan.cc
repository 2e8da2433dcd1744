// C11's threads, mutexes and condition variables by POSIX ones, as glibc has them, but through the
// functions that ThreadSanitizer replaces, so that it knows of librdkafka's threads and locks.
// Only in builds with -fsanitize=thread.
#include <pthread.h>
#include <sched.h>
#include <threads.h>
#include <time.h>

#include <cerrno>
#include <cstdint>

namespace {

static_assert(sizeof(mtx_t) >= sizeof(pthread_mutex_t));
static_assert(sizeof(cnd_t) >= sizeof(pthread_cond_t));

pthread_mutex_t* Posix(mtx_t* mutex) { return reinterpret_cast<pthread_mutex_t*>(mutex); }
pthread_cond_t* Posix(cnd_t* condition) { return reinterpret_cast<pthread_cond_t*>(condition); }

int Result(int error) {
  switch (error) {
    case 0:
      return thrd_success;
    case ENOMEM:
      return thrd_nomem;
    case ETIMEDOUT:
      return thrd_timedout;
    case EBUSY:
      return thrd_busy;
    default:
      return thrd_error;
  }
}

struct Start {
  thrd_start_t function;
  void* argument;
};

void* RunThread(void* pointer) {
  const Start start = *static_cast<Start*>(pointer);
  delete static_cast<Start*>(pointer);
  return reinterpret_cast<void*>(static_cast<intptr_t>(start.function(start.argument)));
}

}  // namespace

extern "C" {

// librdkafka itself is not instrumented: of its atomic counters ThreadSanitizer sees nothing, and
// what it says of two accesses from inside the library is guesswork (so too of the library's locks,
// whose making it does not see published).
const char* __tsan_default_suppressions() {
  return "called_from_lib:librdkafka.so.1\nrace:^mtx_\nrace:^cnd_\n";
}

int thrd_create(thrd_t* thread, thrd_start_t function, void* argument) {
  return Result(pthread_create(thread, nullptr, &RunThread, new Start{function, argument}));
}

int thrd_join(thrd_t thread, int* result) {
  void* value = nullptr;
  const int error = pthread_join(thread, &value);
  if (result != nullptr) *result = static_cast<int>(reinterpret_cast<intptr_t>(value));
  return Result(error);
}

int thrd_detach(thrd_t thread) { return Result(pthread_detach(thread)); }

int mtx_init(mtx_t* mutex, int type) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  if ((type & mtx_recursive) != 0) {
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  }
  const int error = pthread_mutex_init(Posix(mutex), &attributes);
  pthread_mutexattr_destroy(&attributes);
  return Result(error);
}
void mtx_destroy(mtx_t* mutex) { pthread_mutex_destroy(Posix(mutex)); }
int mtx_lock(mtx_t* mutex) { return Result(pthread_mutex_lock(Posix(mutex))); }
int mtx_trylock(mtx_t* mutex) { return Result(pthread_mutex_trylock(Posix(mutex))); }
int mtx_unlock(mtx_t* mutex) { return Result(pthread_mutex_unlock(Posix(mutex))); }

int cnd_init(cnd_t* condition) { return Result(pthread_cond_init(Posix(condition), nullptr)); }
void cnd_destroy(cnd_t* condition) { pthread_cond_destroy(Posix(condition)); }
int cnd_signal(cnd_t* condition) { return Result(pthread_cond_signal(Posix(condition))); }
int cnd_broadcast(cnd_t* condition) { return Result(pthread_cond_broadcast(Posix(condition))); }
int cnd_wait(cnd_t* condition, mtx_t* mutex) {
  return Result(pthread_cond_wait(Posix(condition), Posix(mutex)));
}
int cnd_timedwait(cnd_t* condition, mtx_t* mutex, const timespec* time) {
  return Result(pthread_cond_timedwait(Posix(condition), Posix(mutex), time));
}

}  // extern "C"
