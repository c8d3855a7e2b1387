// The allocator's functions, put before those of the C library by the linker.
#define _GNU_SOURCE
#include "CAllocations.h"

#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>

enum { ROOM = 1 << 16, DEPTH = 32 };

static struct {
  int depth;
  void *frames[DEPTH];
} noted[ROOM];
static atomic_size_t count;
static atomic_bool notes;

size_t allocations_count(void) { return atomic_load(&count); }

size_t allocations_kept(void) {
  size_t all = atomic_load(&count);
  return all < ROOM ? all : ROOM;
}

const void *allocations_frame(size_t allocation, size_t frame) { return noted[allocation].frames[frame]; }

size_t allocations_depth(size_t allocation) { return (size_t)noted[allocation].depth; }

void allocations_note(bool begins) {
  // The first backtrace of a process loads a library, which asks for memory.
  void *frames[1];
  backtrace(frames, 1);
  atomic_store(&notes, begins);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif

#ifndef HAS_SANITIZER
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t items, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static _Thread_local bool is_noting;

static void note(void) {
  if (!atomic_load_explicit(&notes, memory_order_relaxed) || is_noting) return;
  is_noting = true;
  size_t index = atomic_fetch_add(&count, 1);
  if (index < ROOM) noted[index].depth = backtrace(noted[index].frames, DEPTH);
  is_noting = false;
}

void *malloc(size_t size) {
  note();
  return __libc_malloc(size);
}

void *calloc(size_t items, size_t size) {
  note();
  return __libc_calloc(items, size);
}

void *realloc(void *memory, size_t size) {
  note();
  return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size) {
  note();
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  note();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  note();
  *memory = __libc_memalign(alignment, size);
  return *memory || size == 0 ? 0 : ENOMEM;
}
#endif
