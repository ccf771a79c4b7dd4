// What threads have had of the processors, in nanoseconds; 0: nobody knows. From any thread.
#pragma once

#include <pthread.h>
#include <time.h>

#include <cstdint>

namespace ebb {

inline std::uint64_t processor_ns(clockid_t clock = CLOCK_PROCESS_CPUTIME_ID) {
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

// Of one that has not been joined.
inline std::uint64_t processor_ns_of(pthread_t thread) {
  clockid_t clock{};
  return ::pthread_getcpuclockid(thread, &clock) == 0 ? processor_ns(clock) : 0;
}

}  // namespace ebb
