// Linux headers that Swift's Glibc module does not export, and one-line wrappers for what Swift cannot import.
#ifndef CLUPINE_LINUX_H
#define CLUPINE_LINUX_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

// What only `_GNU_SOURCE` declares. No header of this package defines that macro: Swift's own Glibc module is built without it,
// and a program that sees both flavours of one system type does not compile.
int accept4(int, struct sockaddr *, socklen_t *, int);
int pipe2(int ends[2], int flags);
int pthread_setname_np(pthread_t, const char *);

// `errno` is a macro over a thread-local address.
static inline int clupine_errno(void) { return errno; }
static inline void clupine_clear_errno(void) { errno = 0; }

// `syscall` is variadic. 441 is `epoll_pwait2` on every architecture; C libraries older than glibc 2.35 have no wrapper.
static inline int clupine_epoll_pwait2(int epoll, struct epoll_event *events, int maximum, const struct timespec *timeout) {
  return (int)syscall(441, epoll, events, maximum, timeout, (void *)0, (size_t)0);
}

// `open` is variadic.
static inline int clupine_open(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }

// The same.
static inline int clupine_open_at(int directory, const char *name, int flags, mode_t mode) {
  return openat(directory, name, flags, mode);
}

// Opens a file if no look at a disk or a server is needed to find it, else EAGAIN (flag 0x20, RESOLVE_CACHED, since Linux 5.12; older ones say
// EINVAL or ENOSYS). 437 is `openat2` on every architecture; the C library has no wrapper.
static inline int clupine_open_cached(int directory, const char *name, int flags) {
  struct {
    unsigned long long flags, mode, resolve;
  } how = {(unsigned long long)flags, 0, 0x20};
  return (int)syscall(437, directory, name, &how, sizeof how);
}

// Reads from the start of a file what is in memory, else EAGAIN (flag 8, RWF_NOWAIT, since Linux 4.14). musl older than 1.2.5 has no wrapper.
static inline ssize_t clupine_read_cached(int file, void *bytes, size_t count) {
  struct iovec part = {bytes, count};
  return syscall(SYS_preadv2, file, &part, 1ul, 0ul, 0ul, 8);
}

// Moves bytes out of a pipe, or into one, without waiting for a pipe (flags 1 and 2, SPLICE_F_MOVE and SPLICE_F_NONBLOCK). `offset` is that of a file, or
// null. The C library's is one of those that only `_GNU_SOURCE` declares, with types that it declares as well.
static inline ssize_t clupine_splice(int from, int to, long long *offset, size_t count) {
  return syscall(SYS_splice, from, (void *)0, to, offset, count, 3u);
}

// `fcntl` is variadic. 1031 is F_SETPIPE_SZ on every architecture; the answer is the size that the pipe has got.
static inline int clupine_set_pipe_size(int pipe, int bytes) { return fcntl(pipe, 1031, bytes); }

// `ioctl` is variadic.
static inline int clupine_waiting_bytes(int socket) {
  int count = 0;
  return ioctl(socket, FIONREAD, &count) < 0 ? -1 : count;
}

// The name is an array at the end of the entry, which Swift imports as a tuple that may be longer than the entry.
static inline const char *clupine_entry_name(const struct dirent *entry) { return entry->d_name; }

// Renames without overwriting (flag 1, RENAME_NOREPLACE); glibc older than 2.28 and musl have no wrapper.
static inline int clupine_rename_new(int directory, const char *from, const char *to) {
  return (int)syscall(SYS_renameat2, directory, from, AT_FDCWD, to, 1u);
}

// On how many processors the calling thread or the process's first one may run; 0 where nobody says. A thread inherits the mask of whoever made it, so one
// alone may be tied to a processor while the others have more.
static inline int clupine_processors(void) {
  unsigned long set[128], first[128];
  long bytes = syscall(SYS_sched_getaffinity, 0, sizeof set, set);
  if (syscall(SYS_sched_getaffinity, getpid(), sizeof first, first) != bytes) return 0;
  int count = 0;
  for (long word = 0; word * (long)sizeof set[0] < bytes; word++) count += __builtin_popcountl(set[word] | first[word]);
  return count;
}

// `fcntl` is variadic. The copy has a number above those of the standard streams.
static inline int clupine_duplicate(int descriptor) { return fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); }

// Whether the executable was linked without a dynamic loader.
static inline int clupine_is_static_executable(void) { return getauxval(AT_BASE) == 0; }

// Of ThreadSanitizer's runtime, for locks that it does not see (LupineBase, `LockedStorage`): linked with nothing else, and called by nothing else.
void __tsan_mutex_pre_lock(void *address, unsigned flags);
void __tsan_mutex_post_lock(void *address, unsigned flags, int recursion);
int __tsan_mutex_pre_unlock(void *address, unsigned flags);
void __tsan_mutex_post_unlock(void *address, unsigned flags);
static inline void clupine_thread_sanitizer_locks(void *address) { __tsan_mutex_pre_lock(address, 0); }
static inline void clupine_thread_sanitizer_locked(void *address) { __tsan_mutex_post_lock(address, 0, 0); }
static inline void clupine_thread_sanitizer_unlocks(void *address) { __tsan_mutex_pre_unlock(address, 0); }
static inline void clupine_thread_sanitizer_unlocked(void *address) { __tsan_mutex_post_unlock(address, 0); }

// Declared here because <spawn.h> comes from Swift's Glibc module, which hides it: that is compiled without _GNU_SOURCE.
int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *actions, const char *path);

#endif
