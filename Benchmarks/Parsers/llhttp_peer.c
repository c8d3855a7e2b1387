// The same work with llhttp: parse, validate, note where each name and value is, and how many bytes the body has.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "llhttp.h"

struct span { const char *at; size_t length; };
static struct span names[128], values[128];
static int count;
static size_t bytes;
static int has_body;

static int on_field(llhttp_t *p, const char *at, size_t length) { (void)p; names[count].at = at; names[count].length = length; return 0; }
static int on_value(llhttp_t *p, const char *at, size_t length) { (void)p; values[count].at = at; values[count].length = length; return 0; }
static int on_value_complete(llhttp_t *p) { (void)p; count++; return 0; }
static int on_headers_complete(llhttp_t *p) { (void)p; return has_body ? 0 : 1; /* no body, as after HEAD */ }
static int on_body(llhttp_t *p, const char *at, size_t length) { (void)p; (void)at; bytes += length; return 0; }

static char head[4 << 20];

static double run(long rounds, size_t length) {
  llhttp_settings_t settings;
  llhttp_t parser;
  struct timespec a, b;
  llhttp_settings_init(&settings);
  settings.on_header_field = on_field;
  settings.on_header_value = on_value;
  settings.on_header_value_complete = on_value_complete;
  settings.on_body = on_body;
  settings.on_headers_complete = on_headers_complete;
  llhttp_init(&parser, HTTP_RESPONSE, &settings);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
  for (long i = 0; i < rounds; i++) {
    count = 0;
    bytes = 0;
    llhttp_reset(&parser);
    if (llhttp_execute(&parser, head, length) != HPE_OK) { fprintf(stderr, "%s\n", parser.reason); exit(1); }
  }
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
  return ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / rounds;
}

int main(int argc, char **argv) {
  has_body = argc > 3 && !strcmp(argv[3], "--body");
  FILE *file = fopen(argv[1], "rb");
  size_t length = fread(head, 1, sizeof head, file);
  long rounds = atol(argv[2]);
  run(rounds / 10, length);
  double nanoseconds = run(rounds, length);
  printf("{\"nanoseconds\": %.2f, \"fields\": %d, \"bytes\": %zu}\n", nanoseconds, count, bytes);
}
