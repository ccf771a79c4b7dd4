// Preloaded: the time of day jumps by up to a day, back and forth, each time that somebody asks for it. What counts from
// the start of the machine (CLOCK_MONOTONIC) is as ever. What a program waits for by the time of day comes too early or
// not at all.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

static time_t jump(void) {
  static unsigned calls;  // threads may race for it: any value does
  return (time_t)((++calls * 2654435761u) % 172801u) - 86400;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (real == 0) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += jump();
  return result;
}

int gettimeofday(struct timeval* now, void* zone) {
  struct timespec exact;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* now) {
  struct timespec exact;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  if (now != 0) *now = exact.tv_sec;
  return exact.tv_sec;
}
