// Compares of byte vectors that answer with one bit a byte: Swift has no expression for that, the processor has an instruction.
// Vectors come by value: no pointer, nothing unsafe. The compiler lowers them for every processor, so there is no other version.
// See Docs/Decisions for what this is worth.
#ifndef CLUPINE_VECTOR_H
#define CLUPINE_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

typedef unsigned char lupine_bytes16 __attribute__((ext_vector_type(16)));
typedef unsigned char lupine_bytes64 __attribute__((ext_vector_type(64)));
typedef signed char lupine_signed16 __attribute__((ext_vector_type(16)));
typedef signed char lupine_signed64 __attribute__((ext_vector_type(64)));
typedef bool lupine_bools16 __attribute__((ext_vector_type(16)));
typedef bool lupine_bools64 __attribute__((ext_vector_type(64)));

#define LUPINE_VECTOR static inline __attribute__((always_inline))

// One bit for every byte that is a control (below 0x20, or 0x7F), the first byte lowest. HTAB counts as one.
LUPINE_VECTOR uint16_t lupine_controls16(lupine_bytes16 v) {
  return __builtin_bit_cast(uint16_t, __builtin_convertvector((v < 0x20) | (v == 0x7F), lupine_bools16));
}

LUPINE_VECTOR uint64_t lupine_controls64(lupine_bytes64 v) {
  return __builtin_bit_cast(uint64_t, __builtin_convertvector((v < 0x20) | (v == 0x7F), lupine_bools64));
}

// The same with a bit for every byte that is not ASCII, too.
//
// One more than the byte is 0x21 to 0x7F for all others, and less or negative for these: what a saturating subtraction leaves has the
// sign for an answer. That is two operations, where two compares, the copy that one of them needs and their union are four.
LUPINE_VECTOR uint64_t lupine_not_text64(lupine_bytes64 v) {
  lupine_signed64 rest = __builtin_elementwise_sub_sat((lupine_signed64)(v + 1), (lupine_signed64)(0x21));
  return __builtin_bit_cast(uint64_t, __builtin_convertvector(rest < 0, lupine_bools64));
}

// One bit for every byte that is neither a letter nor `-`: almost every field name has no other. Five more than a small letter is 0x66
// to 0x7F, so that the sign tells again.
LUPINE_VECTOR uint16_t lupine_not_name16(lupine_bytes16 v) {
  lupine_signed16 rest = __builtin_elementwise_sub_sat((lupine_signed16)((v | 0x20) + 5), (lupine_signed16)(0x66));
  return __builtin_bit_cast(uint16_t, __builtin_convertvector((rest & (lupine_signed16)(v != '-')) < 0, lupine_bools16));
}

#endif
