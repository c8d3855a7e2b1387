// The same work as Sources/GetLoop, over libcurl's multi interface with easy handles reused. Prints one line of JSON.
// usage: getloop URL CONNECTIONS COUNT [--ca FILE] [--no-reuse] [--no-sessions] [--concurrency N] [--latency] [--cold] [--abandon]
//                [--decode] [--buffer BYTES]
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../measure.h"

static size_t received;
// Bodies that begin with "r": the server's word for a TLS session that was resumed.
static long resumed;
// Whether responses are abandoned as soon as their head is there.
static int abandons;
// When the request of a handle began, and how long each took, if that is asked for.
static double *began, *latencies;
static long recorded;

static size_t take(char *data, size_t size, size_t count, void *user) {
  (void)user;
  if (abandons) return 0;
  if (count > 0 && data[0] == 'r') resumed++;
  received += size * count;
  return size * count;
}

// Which of the handles it is.
static long place(CURL *easy) {
  char *index = NULL;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &index);
  return (long)index;
}

static void add(CURLM *multi, CURL *easy) {
  if (latencies) began[place(easy)] = now();
  curl_multi_add_handle(multi, easy);
}

static long run(CURLM *multi, CURL **handles, int concurrency, long count) {
  long started = 0, done = 0;
  for (int index = 0; index < concurrency && started < count; index++, started++) add(multi, handles[index]);
  int running = 0;
  while (done < count) {
    curl_multi_perform(multi, &running);
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(multi, &left))) {
      if (message->msg != CURLMSG_DONE) continue;
      CURLcode code = message->data.result;
      if (code != CURLE_OK && !(abandons && code == CURLE_WRITE_ERROR)) {
        fprintf(stderr, "%s\n", curl_easy_strerror(code));
        exit(1);
      }
      CURL *easy = message->easy_handle;
      done++;
      if (latencies) latencies[recorded++] = (now() - began[place(easy)]) * 1e6;
      curl_multi_remove_handle(multi, easy);
      if (started < count) {
        started++;
        add(multi, easy);
      }
    }
    if (done < count) curl_multi_poll(multi, NULL, 0, 1000, NULL);
  }
  return done;
}

static int ascending(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return left < right ? -1 : left > right;
}

static double percentile(double share) {
  if (recorded == 0) return 0;
  long index = recorded * share;
  return latencies[index < recorded ? index : recorded - 1];
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const char *url = argv[1];
  int connections = atoi(argv[2]);
  long count = atol(argv[3]);
  int concurrency = connections, cold = 0;
  for (int option = 4; option < argc; option++) {
    if (!strcmp(argv[option], "--concurrency")) concurrency = atoi(argv[++option]);
    else if (!strcmp(argv[option], "--cold")) cold = 1;
    else if (!strcmp(argv[option], "--abandon")) abandons = 1;
    else if (!strcmp(argv[option], "--latency")) latencies = calloc(count + 4 * (long)concurrency, sizeof *latencies);
  }
  curl_global_init(CURL_GLOBAL_ALL);
  CURLM *multi = curl_multi_init();
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)connections);
  curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)connections);
  CURL **handles = calloc(concurrency, sizeof *handles);
  began = calloc(concurrency, sizeof *began);
  for (int index = 0; index < concurrency; index++) {
    CURL *easy = handles[index] = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, (char *)(long)index);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    for (int option = 4; option < argc; option++) {
      if (!strcmp(argv[option], "--ca")) curl_easy_setopt(easy, CURLOPT_CAINFO, argv[++option]);
      else if (!strcmp(argv[option], "--no-reuse")) curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
      else if (!strcmp(argv[option], "--no-sessions")) curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
      else if (!strcmp(argv[option], "--decode")) curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip, deflate");
      else if (!strcmp(argv[option], "--buffer")) curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, atol(argv[++option]));
    }
  }
  if (!cold) run(multi, handles, concurrency, count < concurrency * 4 ? count : concurrency * 4);
  resumed = recorded = 0;
  received = 0;
  double cpuBefore = cpu(), before = now();
  long done = run(multi, handles, concurrency, count);
  double seconds = now() - before, used = cpu() - cpuBefore;
  if (recorded) qsort(latencies, recorded, sizeof *latencies, ascending);
  printf("{\"requests\": %ld, \"seconds\": %.3f, \"perSecond\": %.0f, \"cpuMicroseconds\": %.3f, \"bytes\": %zu, \"resumed\": %ld, "
         "\"p50\": %.3f, \"p99\": %.3f, \"p999\": %.3f, \"peakKilobytes\": %ld}\n",
         done, seconds, done / seconds, used / done, received, resumed, percentile(0.5), percentile(0.99), percentile(0.999), peak());
  return 0;
}
