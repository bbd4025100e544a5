/* What the upstream and the load generator share: the clock, the end with a sentence, sockets on loopback. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_FILES 65536          /* open at once: a connection is one */
#define MOST_EVENTS 1024          /* taken from the kernel in one call */
#define MOST_HEAD_BYTES 16384     /* of a request or reply: what servers allow by custom */
#define MOST_BODY_BYTES (64u << 20) /* of a request; the largest workload has 5 MB */
#define TIME_MARK "TS="           /* before the time of sending in every token: 16 hexadecimal digits of ns */
#define TIME_DIGITS 16
#define NS_PER_S 1000000000ull

/* Nanoseconds of a clock that all processes of this machine share. */
static inline uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* End with what failed and why. */
static inline void die(const char *what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

/* Memory or the end: neither program can go on without. */
static inline void *grown(void *old, size_t bytes) {
  void *memory = realloc(old, bytes);
  if (!memory)
    die("no memory");
  return memory;
}

/* A peer that closed is an error of send(), not a signal; as many connections as the system allows us. */
static inline void prepare_process(void) {
  struct rlimit files;
  signal(SIGPIPE, SIG_IGN);
  if (getrlimit(RLIMIT_NOFILE, &files))
    die("getrlimit");
  files.rlim_cur = files.rlim_max < MOST_FILES ? files.rlim_max : MOST_FILES;
  if (setrlimit(RLIMIT_NOFILE, &files))
    die("setrlimit");
}

static inline struct sockaddr_in loopback(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/* A small piece is sent at once: waiting for more is what would be measured otherwise. */
static inline void send_at_once(int socket) {
  int yes = 1;
  if (setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes))
    die("TCP_NODELAY");
}

/* The value of a header in a head of `length` bytes that ends in an empty line, or NULL. */
static inline const char *header(const char *head, size_t length, const char *name) {
  const char *end = head + length, *line = head;
  size_t name_length = strlen(name);
  while ((line = memmem(line, (size_t)(end - line), "\r\n", 2)) != NULL) {
    line += 2;
    if ((size_t)(end - line) > name_length && !strncasecmp(line, name, name_length) && line[name_length] == ':') {
      line += name_length + 1;
      while (*line == ' ')
        line++;
      return line;
    }
  }
  return NULL;
}
