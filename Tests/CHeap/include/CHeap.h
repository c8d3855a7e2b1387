#ifndef CHEAP_H
#define CHEAP_H

#include <stddef.h>

// Bytes that the allocator has given out and not got back, in all its arenas. What threads keep for themselves to give out again counts until they
// end. Says nothing in a build with a sanitizer, which brings an allocator of its own.
size_t heap_bytes_in_use(void);

#endif
