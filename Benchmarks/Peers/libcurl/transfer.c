// The same work as Sources/Transfer, over libcurl's multi interface: one large body down or up. Prints one line of JSON.
// usage: transfer download URL [--memory | --to FILE] [--buffer BYTES] [--ca FILE]
//        transfer upload URL FILE [--multipart] [--buffer BYTES] [--ca FILE]
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../measure.h"

static size_t received;

// The body, if it is wanted in one piece.
static char *body;
static size_t room;

static size_t take(char *data, size_t size, size_t count, void *file) {
  if (room) {
    while (received + size * count > room) body = realloc(body, room *= 2);
    memcpy(body + received, data, size * count);
  }
  received += size * count;
  return file ? fwrite(data, 1, size * count, file) : size * count;
}

static CURLcode perform(CURL *easy) {
  CURLM *multi = curl_multi_init();
  curl_multi_add_handle(multi, easy);
  int running = 1;
  while (running) {
    curl_multi_perform(multi, &running);
    if (running) curl_multi_poll(multi, NULL, 0, 1000, NULL);
  }
  int left;
  CURLMsg *message = curl_multi_info_read(multi, &left);
  CURLcode code = message ? message->data.result : CURLE_FAILED_INIT;
  curl_multi_remove_handle(multi, easy);
  curl_multi_cleanup(multi);
  return code;
}

int main(int argc, char **argv) {
  int isUpload = argc > 1 && !strcmp(argv[1], "upload");
  if (argc < 3 + isUpload) return 2;
  const char *to = NULL, *authority = NULL;
  long buffer = 0;
  int multipart = 0;
  for (int option = 3 + isUpload; option < argc; option++) {
    if (!strcmp(argv[option], "--multipart")) multipart = 1;
    else if (!strcmp(argv[option], "--memory")) body = malloc(room = 1 << 16);
    else if (option + 1 == argc) return 2;
    else if (!strcmp(argv[option], "--to")) to = argv[++option];
    else if (!strcmp(argv[option], "--ca")) authority = argv[++option];
    else if (!strcmp(argv[option], "--buffer")) buffer = atol(argv[++option]);
  }
  curl_global_init(CURL_GLOBAL_ALL);
  CURL *easy = curl_easy_init();
  FILE *target = to ? fopen(to, "wb") : NULL, *source = NULL;
  curl_mime *mime = NULL;
  curl_easy_setopt(easy, CURLOPT_URL, argv[2]);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, target);
  if (authority) curl_easy_setopt(easy, CURLOPT_CAINFO, authority);
  if (buffer && !isUpload) curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, buffer);
  if (buffer && isUpload) curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, buffer);
  if (isUpload && multipart) {
    mime = curl_mime_init(easy);
    curl_mimepart *part = curl_mime_addpart(mime);
    curl_mime_name(part, "file");
    curl_mime_filedata(part, argv[3]);
    curl_easy_setopt(easy, CURLOPT_MIMEPOST, mime);
  } else if (isUpload) {
    source = fopen(argv[3], "rb");
    struct stat status;
    if (!source || fstat(fileno(source), &status)) return 1;
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_READDATA, source);
    curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)status.st_size);
  }
  double cpuBefore = cpu(), before = now();
  CURLcode code = perform(easy);
  if (target && fclose(target)) code = CURLE_WRITE_ERROR;
  double seconds = now() - before, used = cpu() - cpuBefore;
  if (code != CURLE_OK) {
    fprintf(stderr, "%s\n", curl_easy_strerror(code));
    return 1;
  }
  curl_off_t sent = 0;
  curl_easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &sent);
  printf("{\"received\": %zu, \"sent\": %lld, \"seconds\": %.3f, \"cpuMicroseconds\": %.0f, \"peakKilobytes\": %ld}\n", received,
         (long long)sent, seconds, used, peak());
  curl_easy_cleanup(easy);
  curl_mime_free(mime);
  return 0;
}
