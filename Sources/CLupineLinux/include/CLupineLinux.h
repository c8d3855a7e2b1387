// Linux headers that Swift's Glibc module does not export, and one-line wrappers for what Swift cannot import.
#ifndef CLUPINE_LINUX_H
#define CLUPINE_LINUX_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

// The calls of Linux that only `_GNU_SOURCE` declares: module maps hide that macro from Swift, so they are declared again here.
ssize_t splice(int, off64_t *, int, off64_t *, size_t, unsigned int);
int pipe2(int[2], int);
int accept4(int, struct sockaddr *, socklen_t *, int);
int pthread_setname_np(pthread_t, const char *);
#ifndef SPLICE_F_MOVE
#define SPLICE_F_MOVE 1
#define SPLICE_F_NONBLOCK 2
#endif

// `errno` is a macro over a thread-local address.
static inline int clupine_errno(void) { return errno; }

// `syscall` is variadic. 441 is `epoll_pwait2` on every architecture; C libraries older than glibc 2.35 have no wrapper.
static inline int clupine_epoll_pwait2(int epoll, struct epoll_event *events, int maximum, const struct timespec *timeout) {
  return (int)syscall(441, epoll, events, maximum, timeout, (void *)0, (size_t)0);
}

// `open` is variadic.
static inline int clupine_open(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }

// With `_GNU_SOURCE`, glibc declares these with a transparent union that Swift cannot pass.
static inline int clupine_connect(int socket, const struct sockaddr *address, socklen_t length) {
  return connect(socket, address, length);
}
static inline int clupine_bind(int socket, const struct sockaddr *address, socklen_t length) {
  return bind(socket, address, length);
}
static inline int clupine_getsockname(int socket, struct sockaddr *address, socklen_t *length) {
  return getsockname(socket, address, length);
}
static inline int clupine_accept4(int socket, int flags) { return accept4(socket, NULL, NULL, flags); }

// Whether the executable was linked without a dynamic loader.
static inline int clupine_is_static_executable(void) { return getauxval(AT_BASE) == 0; }

#endif
