// The GNU allocator's own view, which Swift's Glibc module does not export.
#ifndef CALLOCATOR_H
#define CALLOCATOR_H

#include <malloc.h>

#endif
