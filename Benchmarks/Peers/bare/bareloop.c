// What the kernel alone takes for GETs over kept connections: one send, one recv, and an epoll_wait for all whose answers came meanwhile.
// Nothing is parsed: an answer is whatever one recv gives, so it must be small and come whole. Prints one line of JSON.
// usage: bareloop http://ADDRESS:PORT/PATH CONNECTIONS COUNT
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "../measure.h"

enum { eventRoom = 512, bufferSize = 256 * 1024 };

static void require(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "bareloop: %s: %s\n", what, strerror(errno));
  exit(1);
}

static int connected(int epoll, const struct sockaddr_in *address) {
  int one = 1, descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(descriptor >= 0 && connect(descriptor, (const struct sockaddr *)address, sizeof *address) == 0, "connect");
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = descriptor};
  require(epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0, "epoll_ctl");
  return descriptor;
}

int main(int count, char **words) {
  char host[64], path[1024] = "";
  int port = 0;
  require(count == 4 && sscanf(words[1], "http://%63[0-9.]:%d/%1023s", host, &port, path) >= 2, "usage");
  long connections = atol(words[2]), wanted = atol(words[3]), begun = 0, done = 0, bytes = 0;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  inet_pton(AF_INET, host, &address.sin_addr);
  char request[2048];
  int length = snprintf(request, sizeof request, "GET /%s HTTP/1.1\r\nHost: %s:%d\r\nAccept: */*\r\n\r\n", path, host, port);
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  double cpuBefore = cpu(), began = now();
  for (; begun < connections && begun < wanted; begun++)
    require(send(connected(epoll, &address), request, (size_t)length, MSG_NOSIGNAL) == length, "send");
  static char buffer[bufferSize];
  static struct epoll_event events[eventRoom];
  while (done < wanted) {
    int ready = epoll_wait(epoll, events, eventRoom, 10000);
    require(ready > 0, "no answer");
    for (int index = 0; index < ready; index++) {
      ssize_t received = recv(events[index].data.fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (received < 0 && errno == EAGAIN) continue;
      require(received > 12 && memcmp(buffer + 9, "200", 3) == 0, "no answer with 200");
      done++, bytes += received;
      if (begun < wanted) {
        begun++;
        require(send(events[index].data.fd, request, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT) == length, "send");
      }
    }
  }
  double seconds = now() - began;
  printf("{\"requests\": %ld, \"seconds\": %.3f, \"perSecond\": %.0f, \"cpuMicroseconds\": %.3f, \"bytes\": %ld}\n", done, seconds,
         (double)done / seconds, (cpu() - cpuBefore) / (double)done, bytes);
}
