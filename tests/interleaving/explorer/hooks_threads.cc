// What the linker puts before the C library where a test's code starts threads and waits (--wrap), besides hooks.cc: of
// the standard library, too, which is linked statically there.
#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

#include "interleaving/explorer/explorer.h"

using ebb::interleaving::watched;

namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

std::uint64_t ns_of(const timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * kSecondNs + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

extern "C" {

int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument);
int __real_pthread_join(pthread_t thread, void** result);
int __real_pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex);
int __real_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                  const timespec* until);
int __real_pthread_cond_signal(pthread_cond_t* condition);
int __real_pthread_cond_broadcast(pthread_cond_t* condition);
int __real_clock_gettime(clockid_t clock, timespec* time);
int __real_usleep(useconds_t time);

int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  if (!watched()) return __real_pthread_create(thread, attributes, body, argument);
  *thread = ebb::interleaving::on_spawn(body, argument);
  return 0;
}
int __wrap_pthread_join(pthread_t thread, void** result) {
  if (watched()) ebb::interleaving::on_join(thread, __builtin_return_address(0));
  return __real_pthread_join(thread, result);
}
int __wrap_pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (!watched()) return __real_pthread_cond_wait(condition, mutex);
  ebb::interleaving::on_wait(condition, mutex, 0, __builtin_return_address(0));
  return 0;
}
int __wrap_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                  const timespec* until) {
  if (!watched()) return __real_pthread_cond_clockwait(condition, mutex, clock, until);
  return ebb::interleaving::on_wait(condition, mutex, ns_of(*until), __builtin_return_address(0)) ? 0 : ETIMEDOUT;
}
int __wrap_pthread_cond_signal(pthread_cond_t* condition) {
  if (!watched()) return __real_pthread_cond_signal(condition);
  ebb::interleaving::on_notify(condition, false, __builtin_return_address(0));
  return 0;
}
int __wrap_pthread_cond_broadcast(pthread_cond_t* condition) {
  if (!watched()) return __real_pthread_cond_broadcast(condition);
  ebb::interleaving::on_notify(condition, true, __builtin_return_address(0));
  return 0;
}
// One clock for all: it passes with steps, and jumps when all wait.
int __wrap_clock_gettime(clockid_t clock, timespec* time) {
  if (!watched()) return __real_clock_gettime(clock, time);
  const std::uint64_t now = ebb::interleaving::on_clock();
  time->tv_sec = static_cast<time_t>(now / kSecondNs);
  time->tv_nsec = static_cast<long>(now % kSecondNs);
  return 0;
}
int __wrap_usleep(useconds_t time) {
  if (!watched()) return __real_usleep(time);
  ebb::interleaving::on_yield(__builtin_return_address(0));
  return 0;
}

}  // extern "C"
