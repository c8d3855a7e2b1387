// What llhttp makes of responses: the same input and the same lines as Differential.swift, for the letters r and h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "llhttp.h"

static char *text;
static size_t text_length, text_room;
static unsigned char *body;
static size_t body_length;
static int is_head, has_head, in_trailers, fields, is_final;

static void add(const char *bytes, size_t length) {
  if (text_length + length + 1 > text_room) text = realloc(text, text_room = (text_length + length + 1) * 2);
  memcpy(text + text_length, bytes, length);
  text_length += length;
}

static void add_hex(const char *at, size_t length) {
  for (size_t i = 0; i < length; i++) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", (unsigned char)at[i]);
    add(digits, 2);
  }
}

static int on_begin(llhttp_t *p) { (void)p; in_trailers = 0; has_head = 0; return 0; }

static void begin_head(llhttp_t *p) {
  char line[32];
  if (has_head) return;
  has_head = 1;
  fields = 0;
  if (text_length) add(";", 1);
  add(line, snprintf(line, sizeof line, "%d ", p->status_code));
}

static int fresh = 1;
static int on_field(llhttp_t *p, const char *at, size_t length) {
  begin_head(p);
  if (fresh) {
    if (in_trailers == 1) { add(";trailers ", 10); in_trailers = 2; fields = 0; }
    if (fields++) add(",", 1);
    fresh = 0;
  }
  add_hex(at, length);
  return 0;
}
static int on_field_complete(llhttp_t *p) { (void)p; add(":", 1); return 0; }
static int on_value(llhttp_t *p, const char *at, size_t length) { (void)p; add_hex(at, length); return 0; }
static int on_value_complete(llhttp_t *p) { (void)p; fresh = 1; return 0; }
static int on_headers_complete(llhttp_t *p) {
  begin_head(p);
  in_trailers = 1;
  is_final = p->status_code >= 200 || p->status_code == 101;
  return is_head && is_final ? 1 : 0;
}
static int on_body(llhttp_t *p, const char *at, size_t length) {
  (void)p;
  body = realloc(body, body_length + length + 1);
  memcpy(body + body_length, at, length);
  body_length += length;
  return 0;
}
static int on_complete(llhttp_t *p) { (void)p; return is_final ? HPE_PAUSED : 0; }

static void run(const char *input, size_t length) {
  llhttp_settings_t settings;
  llhttp_t parser;
  llhttp_settings_init(&settings);
  settings.on_message_begin = on_begin;
  settings.on_header_field = on_field;
  settings.on_header_field_complete = on_field_complete;
  settings.on_header_value = on_value;
  settings.on_header_value_complete = on_value_complete;
  settings.on_headers_complete = on_headers_complete;
  settings.on_body = on_body;
  settings.on_message_complete = on_complete;
  llhttp_init(&parser, HTTP_RESPONSE, &settings);
  text_length = body_length = 0;
  is_final = has_head = in_trailers = 0;
  fresh = 1;
  llhttp_errno_t error = llhttp_execute(&parser, input, length);
  const char *reason = parser.reason;
  if (error == HPE_OK) {
    error = llhttp_finish(&parser);
    reason = parser.reason;
    // Between two messages an end is none to llhttp; to a request that waits it is.
    if (error == HPE_OK && !is_final) { error = HPE_INVALID_EOF_STATE; reason = "no final response"; }
  }
  if (error == HPE_PAUSED || error == HPE_PAUSED_UPGRADE) error = HPE_OK;
  if (error != HPE_OK) {
    printf("refuse %s: %s\n", llhttp_errno_name(error), reason ? reason : "");
    return;
  }
  printf("accept %.*s | ", (int)text_length, text ? text : "");
  for (size_t i = 0; i < body_length; i++) printf("%02x", body[i]);
  printf("\n");
}

int main(void) {
  int kind;
  while ((kind = getchar()) != EOF) {
    unsigned char prefix[4];
    if (fread(prefix, 1, 4, stdin) != 4) return 1;
    size_t length = prefix[0] | prefix[1] << 8 | prefix[2] << 16 | (size_t)prefix[3] << 24;
    char *input = malloc(length + 1);
    if (fread(input, 1, length, stdin) != length) return 1;
    is_head = kind == 'h';
    run(input, length);
    free(input);
  }
  return 0;
}
