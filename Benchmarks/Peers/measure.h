// The clocks of the peers in C.
#ifndef MEASURE_H
#define MEASURE_H

#include <sys/resource.h>
#include <time.h>

// Microseconds of the processor that this process has had, user and system.
static inline double cpu(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec * 1e6 + usage.ru_utime.tv_usec + usage.ru_stime.tv_sec * 1e6 + usage.ru_stime.tv_usec;
}

// Seconds on the monotonic clock.
static inline double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

#endif
