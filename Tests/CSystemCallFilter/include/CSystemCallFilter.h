#ifndef CSYSTEM_CALL_FILTER_H
#define CSYSTEM_CALL_FILTER_H

#include <sys/syscall.h>

// Numbers of system calls, which are macros of two steps in the headers.
enum {
  filter_epoll_pwait2 = 441,
  filter_sendfile = SYS_sendfile,
  filter_renameat2 = SYS_renameat2,
  filter_getsockname = SYS_getsockname,
  filter_getsockopt = SYS_getsockopt,
};

// From now on a system call gives an error in every thread of this process and is not made: what a sandbox does that does not know it. 0, or an errno.
int filter_system_call(int number, int error);

// The same of `openat` for everything but directories.
int filter_opening_of_files(int error);

#endif
