// What the kernel takes for GETs over kept connections by io_uring, in the place of epoll, send and recv: receives that go on by themselves, and one call a turn,
// which sends what was asked for and waits. Nothing is parsed: an answer is whatever one receive gives, so it must be small and come whole. Prints one line of JSON.
// usage: ringloop http://ADDRESS:PORT/PATH CONNECTIONS COUNT
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../measure.h"

enum { entries = 1024, bufferCount = 1024, bufferSize = 4096, isReceive = 1, isSend = 2 };

static void require(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "ringloop: %s: %s\n", what, strerror(errno));
  exit(1);
}

static int ring;
static unsigned waiting, *submissionTail, submissionMask, *completionHead, *completionTail, completionMask;
static struct io_uring_sqe *submissions;
static struct io_uring_cqe *completions;
static struct io_uring_buf_ring *freeBuffers;
static char *memory;

static void *mapped(size_t size, int descriptor, off_t offset) {
  int flags = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void *address = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, descriptor, offset);
  require(address != MAP_FAILED, "mmap");
  return address;
}

static void giveBack(unsigned buffer) {
  uint16_t tail = freeBuffers->tail;
  struct io_uring_buf *slot = &freeBuffers->bufs[tail & (bufferCount - 1)];
  slot->addr = (uintptr_t)(memory + (size_t)buffer * bufferSize);
  slot->len = bufferSize;
  slot->bid = (uint16_t)buffer;
  __atomic_store_n(&freeBuffers->tail, (uint16_t)(tail + 1), __ATOMIC_RELEASE);
}

static void makeRing(void) {
  struct io_uring_params made = {.flags = IORING_SETUP_CLAMP | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
  ring = (int)syscall(SYS_io_uring_setup, entries, &made);
  require(ring >= 0, "io_uring_setup");
  size_t submitted = made.sq_off.array + made.sq_entries * sizeof(unsigned);
  size_t completed = made.cq_off.cqes + made.cq_entries * sizeof *completions;
  char *shared = mapped(submitted > completed ? submitted : completed, ring, IORING_OFF_SQ_RING);
  submissions = mapped(made.sq_entries * sizeof *submissions, ring, IORING_OFF_SQES);
  submissionTail = (unsigned *)(shared + made.sq_off.tail);
  submissionMask = made.sq_entries - 1;
  for (unsigned index = 0; index < made.sq_entries; index++) ((unsigned *)(shared + made.sq_off.array))[index] = index;
  completionHead = (unsigned *)(shared + made.cq_off.head);
  completionTail = (unsigned *)(shared + made.cq_off.tail);
  completionMask = made.cq_entries - 1;
  completions = (struct io_uring_cqe *)(shared + made.cq_off.cqes);
  freeBuffers = mapped(bufferCount * sizeof(struct io_uring_buf), -1, 0);
  memory = mapped((size_t)bufferCount * bufferSize, -1, 0);
  struct io_uring_buf_reg given = {.ring_addr = (uintptr_t)freeBuffers, .ring_entries = bufferCount};
  require(syscall(SYS_io_uring_register, ring, IORING_REGISTER_PBUF_RING, &given, 1) == 0, "io_uring_register");
  for (unsigned buffer = 0; buffer < bufferCount; buffer++) giveBack(buffer);
}

static struct io_uring_sqe *submit(int operation, int descriptor, int kind) {
  struct io_uring_sqe *entry = &submissions[*submissionTail & submissionMask];
  memset(entry, 0, sizeof *entry);
  entry->opcode = (uint8_t)operation;
  entry->fd = descriptor;
  entry->user_data = (uint64_t)descriptor << 2 | (uint64_t)kind;
  __atomic_store_n(submissionTail, *submissionTail + 1, __ATOMIC_RELEASE);
  waiting++;
  return entry;
}

static void beginReceiving(int descriptor) {
  struct io_uring_sqe *entry = submit(IORING_OP_RECV, descriptor, isReceive);
  entry->ioprio = IORING_RECV_MULTISHOT;
  entry->flags = IOSQE_BUFFER_SELECT;
}

static int connected(const struct sockaddr_in *address) {
  int one = 1, descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(descriptor >= 0 && connect(descriptor, (const struct sockaddr *)address, sizeof *address) == 0, "connect");
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return descriptor;
}

static char request[2048];
static int length;

static void sendRequest(int descriptor) {
  struct io_uring_sqe *entry = submit(IORING_OP_SEND, descriptor, isSend);
  entry->addr = (uintptr_t)request;
  entry->len = (uint32_t)length;
  entry->msg_flags = MSG_NOSIGNAL | MSG_DONTWAIT;
}

int main(int count, char **words) {
  char host[64], path[1024] = "";
  int port = 0;
  require(count == 4 && sscanf(words[1], "http://%63[0-9.]:%d/%1023s", host, &port, path) >= 2, "usage");
  long connections = atol(words[2]), wanted = atol(words[3]), begun = 0, done = 0, bytes = 0, calls = 0;
  require(connections <= entries / 2, "too many connections");
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  inet_pton(AF_INET, host, &address.sin_addr);
  length = snprintf(request, sizeof request, "GET /%s HTTP/1.1\r\nHost: %s:%d\r\nAccept: */*\r\n\r\n", path, host, port);
  makeRing();
  double cpuBefore = cpu(), began = now();
  unsigned sent = 0;
  for (; begun < connections && begun < wanted; begun++, sent++) {
    int descriptor = connected(&address);
    beginReceiving(descriptor);
    sendRequest(descriptor);
  }
  while (done < wanted) {
    // What is sent completes within the call.
    require(syscall(SYS_io_uring_enter, ring, waiting, sent + 1, IORING_ENTER_GETEVENTS, NULL, 0) == (long)waiting, "io_uring_enter");
    waiting = sent = 0, calls++;
    unsigned head = *completionHead, tail = __atomic_load_n(completionTail, __ATOMIC_ACQUIRE);
    for (; head != tail; head++) {
      struct io_uring_cqe completion = completions[head & completionMask];
      int descriptor = (int)(completion.user_data >> 2);
      if ((completion.user_data & 3) == isSend) {
        require(completion.res == length, "send");
        continue;
      }
      unsigned buffer = completion.flags >> IORING_CQE_BUFFER_SHIFT;
      require(completion.res > 12 && memcmp(memory + (size_t)buffer * bufferSize + 9, "200", 3) == 0, "no answer with 200");
      giveBack(buffer);
      if (!(completion.flags & IORING_CQE_F_MORE)) beginReceiving(descriptor);
      done++, bytes += completion.res;
      if (begun < wanted) begun++, sent++, sendRequest(descriptor);
    }
    __atomic_store_n(completionHead, head, __ATOMIC_RELEASE);
  }
  double seconds = now() - began;
  printf("{\"requests\": %ld, \"seconds\": %.3f, \"perSecond\": %.0f, \"cpuMicroseconds\": %.3f, \"bytes\": %ld, \"calls\": %.3f}\n", done, seconds,
         (double)done / seconds, (cpu() - cpuBefore) / (double)done, bytes, (double)calls / (double)done);
}
