#define _GNU_SOURCE
// A server that takes request bodies and drops them, then answers 200: nginx answers before it has read a body it does not want.
// Prints its ports, plaintext and (if given a certificate) TLS, and runs until its standard input ends.
// usage: sink [CERTIFICATE.pem KEY.pem]
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { bufferSize = 256 * 1024 };

typedef struct {
  int descriptor;
  SSL *ssl;
} Stream;

typedef struct {
  int descriptor;
  SSL_CTX *context;
} Listener;

static long receive(Stream *stream, char *bytes, long room) {
  return stream->ssl ? SSL_read(stream->ssl, bytes, (int)room) : recv(stream->descriptor, bytes, room, 0);
}

static void answer(Stream *stream, const char *text) {
  if (stream->ssl) SSL_write(stream->ssl, text, (int)strlen(text));
  else send(stream->descriptor, text, strlen(text), MSG_NOSIGNAL);
}

// One request. 0: the connection cannot go on.
static int serve(Stream *stream, char *bytes) {
  long filled = 0, got;
  char *end = NULL;
  while (!end) {
    got = receive(stream, bytes + filled, bufferSize - 1 - filled);
    if (got <= 0) return 0;
    filled += got;
    bytes[filled] = 0;
    end = strstr(bytes, "\r\n\r\n");
    if (!end && filled > bufferSize / 2) return 0;
  }
  *end = 0;
  char *length = strcasestr(bytes, "\r\ncontent-length:");
  if (!length || strcasestr(bytes, "\r\ntransfer-encoding:")) {
    answer(stream, "HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    return 0;
  }
  long long left = atoll(length + strlen("\r\ncontent-length:")) - (filled - (end + 4 - bytes));
  if (strcasestr(bytes, "\r\nexpect: 100-continue") && left > 0) answer(stream, "HTTP/1.1 100 Continue\r\n\r\n");
  while (left > 0) {
    got = receive(stream, bytes, bufferSize);
    if (got <= 0) return 0;
    left -= got;
  }
  answer(stream, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ndiscarded");
  return 1;
}

static void *connection(void *argument) {
  Stream *stream = argument;
  char *bytes = malloc(bufferSize);
  if (!stream->ssl || SSL_accept(stream->ssl) == 1)
    while (serve(stream, bytes)) continue;
  if (stream->ssl) {
    SSL_shutdown(stream->ssl);
    SSL_free(stream->ssl);
  }
  close(stream->descriptor);
  free(bytes);
  free(stream);
  return NULL;
}

static void *acceptAll(void *argument) {
  Listener *listener = argument;
  for (;;) {
    Stream *stream = calloc(1, sizeof *stream);
    stream->descriptor = accept(listener->descriptor, NULL, NULL);
    if (stream->descriptor < 0) return NULL;
    if (listener->context) {
      stream->ssl = SSL_new(listener->context);
      SSL_set_fd(stream->ssl, stream->descriptor);
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, connection, stream) == 0) pthread_detach(thread);
  }
}

static int startListener(SSL_CTX *context) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  Listener *listener = malloc(sizeof *listener);
  listener->descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  listener->context = context;
  if (bind(listener->descriptor, (struct sockaddr *)&address, size) || listen(listener->descriptor, 1024)) exit(1);
  getsockname(listener->descriptor, (struct sockaddr *)&address, &size);
  pthread_t thread;
  if (pthread_create(&thread, NULL, acceptAll, listener)) exit(1);
  return ntohs(address.sin_port);
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  SSL_CTX *context = NULL;
  if (argc == 3) {
    context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context, "TLS_AES_256_GCM_SHA384");
    SSL_CTX_set1_groups_list(context, "X25519");
    SSL_CTX_set_mode(context, SSL_MODE_AUTO_RETRY);
    if (SSL_CTX_use_certificate_chain_file(context, argv[1]) != 1 || SSL_CTX_use_PrivateKey_file(context, argv[2], SSL_FILETYPE_PEM) != 1)
      return 1;
  }
  printf("%d %d\n", startListener(NULL), context ? startListener(context) : 0);
  fflush(stdout);
  while (getchar() != EOF) continue;
  return 0;
}
