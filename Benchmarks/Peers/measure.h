// The clocks of the peers in C, and their memory.
#ifndef MEASURE_H
#define MEASURE_H

#include <stdio.h>
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

// What the kernel calls the high-water mark of this process's memory. Not ru_maxrss, which is inherited from the parent.
static inline long peak(void) {
  FILE *status = fopen("/proc/self/status", "r");
  char line[256];
  long kilobytes = 0;
  while (status && fgets(line, sizeof line, status))
    if (sscanf(line, "VmHWM: %ld", &kilobytes) == 1) break;
  if (status) fclose(status);
  return kilobytes;
}

#endif
