// What the kernel alone takes for one large body of known length: watermark, epoll_wait, and recv or splice. Of the response only the end of its head is
// looked for. Prints one line of JSON.
// usage: baretransfer download http://ADDRESS:PORT/PATH [--to FILE [--splice]] [--read BYTES] [--watermark BYTES]
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../measure.h"

static void require(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "baretransfer: %s: %s\n", what, strerror(errno));
  exit(1);
}

// Sends the request, and leaves the socket behind the head; the length that it announces.
static long begin(int socket, const char *host, int port, const char *path) {
  char text[2048], *end;
  int length = snprintf(text, sizeof text, "GET /%s HTTP/1.1\r\nHost: %s:%d\r\nAccept: */*\r\n\r\n", path, host, port);
  require(send(socket, text, (size_t)length, MSG_NOSIGNAL) == length, "send");
  for (;;) {
    ssize_t seen = recv(socket, text, sizeof text - 1, MSG_PEEK);
    require(seen > 0, "no answer");
    text[seen] = 0;
    if ((end = strstr(text, "\r\n\r\n"))) break;
  }
  require(memcmp(text + 9, "200", 3) == 0, "no answer with 200");
  const char *field = strcasestr(text, "\r\nContent-Length:");
  require(field && field < end, "no length");
  long count = atol(field + 17);
  require(recv(socket, text, (size_t)(end + 4 - text), 0) == end + 4 - text, "recv");
  return count;
}

int main(int count, char **words) {
  char host[64], path[1024] = "";
  int port = 0, splices = 0, file = -1, pipes[2] = {-1, -1};
  long size = 512 * 1024, watermark = 1024 * 1024, received = 0;
  require(count >= 3 && sscanf(words[2], "http://%63[0-9.]:%d/%1023s", host, &port, path) >= 2, "usage");
  for (int option = 3; option < count; option++) {
    if (!strcmp(words[option], "--splice")) splices = 1;
    else if (option + 1 == count) return 2;
    else if (!strcmp(words[option], "--to")) file = open(words[++option], O_RDWR | O_CREAT | O_TRUNC, 0600);
    else if (!strcmp(words[option], "--read")) size = atol(words[++option]);
    else if (!strcmp(words[option], "--watermark")) watermark = atol(words[++option]);
  }
  require(!splices || (file >= 0 && pipe(pipes) == 0 && fcntl(pipes[1], F_SETPIPE_SZ, (int)size) >= 0), "pipe");
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  inet_pton(AF_INET, host, &address.sin_addr);
  int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), epoll = epoll_create1(EPOLL_CLOEXEC);
  require(connect(descriptor, (const struct sockaddr *)&address, sizeof address) == 0, "connect");
  double began = now();
  long length = begin(descriptor, host, port, path);
  int low = (int)watermark;
  setsockopt(descriptor, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
  struct epoll_event event = {.events = EPOLLIN};
  require(epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0, "epoll_ctl");
  char *buffer = malloc((size_t)size);
  while (received < length) {
    if (low > 1 && length - received < 2 * watermark) {
      low = 1;
      setsockopt(descriptor, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
    }
    require(epoll_wait(epoll, &event, 1, 10000) > 0, "no answer");
    ssize_t taken = splices ? splice(descriptor, NULL, pipes[1], NULL, (size_t)size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK)
                            : recv(descriptor, buffer, (size_t)size, MSG_DONTWAIT);
    if (taken < 0 && errno == EAGAIN) continue;
    require(taken > 0, "the body ends early");
    off_t offset = received;
    for (ssize_t left = taken; splices && left > 0;) {
      ssize_t written = splice(pipes[0], NULL, file, &offset, (size_t)left, SPLICE_F_MOVE);
      require(written > 0, "splice");
      left -= written;
    }
    require(splices || file < 0 || pwrite(file, buffer, (size_t)taken, offset) == taken, "pwrite");
    received += taken;
  }
  printf("{\"received\": %ld, \"sent\": 0, \"seconds\": %.3f, \"cpuMicroseconds\": %.0f, \"peakKilobytes\": %ld}\n", received,
         now() - began, cpu(), peak());
}
