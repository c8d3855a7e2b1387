// The same work as Sources/GetLoop, over libcurl's multi interface with easy handles reused. Prints one line of JSON.
// usage: getloop URL CONNECTIONS COUNT [--ca FILE] [--no-reuse] [--no-sessions] [--buffer BYTES]
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static size_t received;
// Bodies that begin with "r": the server's word for a TLS session that was resumed.
static long resumed;

static size_t take(char *data, size_t size, size_t count, void *user) {
  (void)user;
  if (count > 0 && data[0] == 'r') resumed++;
  received += size * count;
  return size * count;
}

static double cpu(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec * 1e6 + usage.ru_utime.tv_usec + usage.ru_stime.tv_sec * 1e6 + usage.ru_stime.tv_usec;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static long run(CURLM *multi, CURL **handles, int connections, long count) {
  long started = 0, done = 0;
  for (int index = 0; index < connections && started < count; index++, started++) curl_multi_add_handle(multi, handles[index]);
  int running = 0;
  while (done < count) {
    curl_multi_perform(multi, &running);
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(multi, &left))) {
      if (message->msg != CURLMSG_DONE) continue;
      if (message->data.result != CURLE_OK) {
        fprintf(stderr, "%s\n", curl_easy_strerror(message->data.result));
        exit(1);
      }
      CURL *easy = message->easy_handle;
      done++;
      curl_multi_remove_handle(multi, easy);
      if (started < count) {
        started++;
        curl_multi_add_handle(multi, easy);
      }
    }
    if (done < count) curl_multi_poll(multi, NULL, 0, 1000, NULL);
  }
  return done;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const char *url = argv[1];
  int connections = atoi(argv[2]);
  long count = atol(argv[3]);
  curl_global_init(CURL_GLOBAL_ALL);
  CURLM *multi = curl_multi_init();
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)connections);
  CURL **handles = calloc(connections, sizeof *handles);
  for (int index = 0; index < connections; index++) {
    CURL *easy = handles[index] = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    for (int option = 4; option < argc; option++) {
      if (!strcmp(argv[option], "--ca")) curl_easy_setopt(easy, CURLOPT_CAINFO, argv[++option]);
      else if (!strcmp(argv[option], "--no-reuse")) curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
      else if (!strcmp(argv[option], "--no-sessions")) curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
      else if (!strcmp(argv[option], "--buffer")) curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, atol(argv[++option]));
    }
  }
  run(multi, handles, connections, count < connections * 4 ? count : connections * 4);
  resumed = 0;
  double cpuBefore = cpu(), before = now();
  long done = run(multi, handles, connections, count);
  double seconds = now() - before, used = cpu() - cpuBefore;
  printf("{\"requests\": %ld, \"seconds\": %.3f, \"perSecond\": %.0f, \"cpuMicroseconds\": %.3f, \"bytes\": %zu, \"resumed\": %ld}\n", done,
         seconds, done / seconds, used / done, received, resumed);
  return 0;
}
