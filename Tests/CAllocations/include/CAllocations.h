#ifndef CALLOCATIONS_H
#define CALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>

// Notes who asks for memory: every call of the allocator of this process, with the stack that led to it. Nothing is noted in a build with a
// sanitizer, which brings an allocator of its own.

// Begins to note, or stops.
void allocations_note(bool notes);
// How many were noted. Those past the room for them are counted, and have no stack.
size_t allocations_count(void);
// How many have a stack.
size_t allocations_kept(void);
// How many frames the stack of one has, from the innermost on, and where one of them is.
size_t allocations_depth(size_t allocation);
const void *allocations_frame(size_t allocation, size_t frame);
// Reads the functions of this program, before the first look at one; how many there are: none in a program without its symbols.
size_t allocations_read_symbols(void);
// The name of the function of a frame, as the linker knows it; null: it is none of this program's.
const char *allocations_symbol(size_t allocation, size_t frame);
// The same as people write it: the linker's leaves out words that it has said before. Lives until the next call.
const char *allocations_readable_symbol(size_t allocation, size_t frame);

#endif
