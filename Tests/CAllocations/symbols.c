// The functions of this program by address, from its table of symbols: the dynamic one, which dladdr reads, leaves most of them out.
#define _GNU_SOURCE
#include "CAllocations.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// Of the Swift runtime.
extern char *swift_demangle(const char *name, size_t length, char *output, size_t *outputLength, uint32_t flags);

struct function {
  uintptr_t begin, end;
  const char *name;
};

static struct function *functions;
static size_t function_count;
static uintptr_t base;

static int take_base(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size, (void)context;
  // The program itself comes first.
  base = info->dlpi_addr;
  return 1;
}

static int by_address(const void *left, const void *right) {
  const struct function *one = left, *other = right;
  return one->begin < other->begin ? -1 : one->begin > other->begin;
}

size_t allocations_read_symbols(void) {
  dl_iterate_phdr(take_base, NULL);
  int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) return 0;
  const char *image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (image == MAP_FAILED) return 0;
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff);
  for (size_t index = 0; index < header->e_shnum; index++) {
    if (sections[index].sh_type != SHT_SYMTAB) continue;
    const Elf64_Sym *symbols = (const Elf64_Sym *)(image + sections[index].sh_offset);
    const char *names = image + sections[sections[index].sh_link].sh_offset;
    size_t count = sections[index].sh_size / sizeof *symbols;
    functions = calloc(count, sizeof *functions);
    if (!functions) return 0;
    for (size_t symbol = 0; symbol < count; symbol++) {
      if (ELF64_ST_TYPE(symbols[symbol].st_info) != STT_FUNC || symbols[symbol].st_size == 0) continue;
      uintptr_t begin = base + symbols[symbol].st_value;
      functions[function_count++] =
          (struct function){begin, begin + symbols[symbol].st_size, names + symbols[symbol].st_name};
    }
    qsort(functions, function_count, sizeof *functions, by_address);
  }
  return function_count;
}

const char *allocations_symbol(size_t allocation, size_t frame) {
  // The address after a call may belong to the next function.
  uintptr_t address = (uintptr_t)allocations_frame(allocation, frame) - 1;
  size_t low = 0, high = function_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (functions[middle].begin <= address) low = middle + 1;
    else high = middle;
  }
  return low > 0 && address < functions[low - 1].end ? functions[low - 1].name : NULL;
}

const char *allocations_readable_symbol(size_t allocation, size_t frame) {
  static char *last;
  const char *name = allocations_symbol(allocation, frame);
  if (!name) return NULL;
  free(last);
  last = swift_demangle(name, strlen(name), NULL, NULL, 0);
  return last ? last : name;
}
