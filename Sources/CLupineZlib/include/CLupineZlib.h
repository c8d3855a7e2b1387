// zlib, and one-line wrappers for the macros that Swift cannot import.
#ifndef CLUPINE_ZLIB_H
#define CLUPINE_ZLIB_H

#include <zlib.h>

static inline int CLupineZlib_inflateInit2(z_stream *stream, int windowBits) {
  return inflateInit2(stream, windowBits);
}

static inline int CLupineZlib_deflateInit2(z_stream *stream, int level, int windowBits) {
  return deflateInit2(stream, level, Z_DEFLATED, windowBits, 8, Z_DEFAULT_STRATEGY);
}

#endif
