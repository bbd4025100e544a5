/* Clients that ask again as soon as they are answered, each on a connection of its own; the result as JSON.
 *
 *   load_generator -p PORT [-P PATH] [-c CLIENTS] [-d SECONDS] [-w WARM_UP_SECONDS] [-b BODY_FILE]
 *                  [-t TOKENS] [-s]
 *
 * -t: how many tokens each reply must bring; another number is an error. -s: clients stop reading after their
 * first byte and keep the connection open to the end. One thread; replies that run when the time is over are
 * read to their end, so that what a proxy worked for is what is counted.
 */
#include "wire.h"
#include "histogram.h"
#include "reply.h"

#define DRAIN_NS (5 * NS_PER_S) /* for replies that still run; the longest of ours take one second */
#define MOST_ERRORS 1000        /* then it is broken, and waiting is in vain */
#define ERRORS_TOLD 3
#define INPUT_BYTES (256 << 10)
#define STALLED_RECEIVE_BYTES 4096 /* so that a system's own buffers do not swallow what is not read */
#define RAMP 0.8                /* of the warm-up: clients begin one after the other in this part of it */
#define LONGEST_WAIT_MS 20

struct client {
  int socket;
  bool is_asking; /* a reply is awaited */
  bool awaits_room;
  size_t sent;
  uint64_t asked_ns;
  bool has_first_byte;
  struct reply reply;
};

static int port = 0, client_count = 1;
static long wanted_tokens = -1;
static bool stalls = false;
static const char *path = "/v1/chat/completions";
static double run_s = 3.0, warm_up_s = 0.5;
static char *request;
static size_t request_bytes;

static int poller;
static uint64_t measured_from_ns, ends_ns, heard_ns; /* heard_ns: when the last bytes came */
static uint64_t requests, tokens, all_requests, all_tokens, errors;
static struct histogram first_byte, whole, transit;

static void heard_token(uint64_t sent_ns) {
  all_tokens++;
  if (heard_ns < measured_from_ns || heard_ns >= ends_ns)
    return;
  tokens++;
  count_time(&transit, heard_ns > sent_ns ? heard_ns - sent_ns : 0);
}

static void tell_error(const char *what, const char *more) {
  if (errors++ < ERRORS_TOLD)
    fprintf(stderr, "%s%.600s\n", what, more);
}

static void watch(struct client *one, int change, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = one};
  if (epoll_ctl(poller, change, one->socket, &event))
    die("epoll_ctl");
}

static void connect_client(struct client *one) {
  struct sockaddr_in address = loopback(port);
  int room = STALLED_RECEIVE_BYTES;
  one->socket = socket(AF_INET, SOCK_STREAM, 0);
  if (stalls && setsockopt(one->socket, SOL_SOCKET, SO_RCVBUF, &room, sizeof room))
    die("SO_RCVBUF");
  if (connect(one->socket, (struct sockaddr *)&address, sizeof address))
    die("connect");
  send_at_once(one->socket);
  one->awaits_room = false;
  watch(one, EPOLL_CTL_ADD, EPOLLIN);
}

static void send_request(struct client *one) {
  while (one->sent < request_bytes) {
    ssize_t count = send(one->socket, request + one->sent, request_bytes - one->sent, MSG_DONTWAIT);
    if (count < 0)
      break; /* EAGAIN: when there is room; anything else is heard again when the socket is read */
    one->sent += (size_t)count;
  }
  if (one->awaits_room != (one->sent < request_bytes)) {
    one->awaits_room = !one->awaits_room;
    watch(one, EPOLL_CTL_MOD, EPOLLIN | (one->awaits_room ? EPOLLOUT : 0));
  }
}

static void ask(struct client *one) {
  memset(&one->reply, 0, offsetof(struct reply, head));
  one->is_asking = true;
  one->has_first_byte = false;
  one->sent = 0;
  one->asked_ns = now_ns();
  send_request(one);
}

static void ask_again(struct client *one) {
  one->is_asking = false;
  if (now_ns() < ends_ns && errors < MOST_ERRORS)
    ask(one);
}

static void reconnect(struct client *one) {
  close(one->socket);
  connect_client(one);
}

static void end_reply(struct client *one) {
  all_requests++;
  if (heard_ns >= measured_from_ns && heard_ns < ends_ns) {
    requests++;
    count_time(&whole, heard_ns - one->asked_ns);
  }
  if (one->reply.status != 200)
    tell_error("refused: ", one->reply.head);
  else if (wanted_tokens >= 0 && one->reply.tokens != wanted_tokens)
    tell_error("a reply has too few or too many tokens", "");
  if (one->reply.closes)
    reconnect(one);
  ask_again(one);
}

static void hear(struct client *one, const char *bytes, size_t count) {
  struct reply *reply = &one->reply;
  size_t taken = 0;
  if (!one->has_first_byte) {
    one->has_first_byte = true;
    if (heard_ns >= measured_from_ns && heard_ns < ends_ns)
      count_time(&first_byte, heard_ns - one->asked_ns);
    if (stalls) {
      watch(one, EPOLL_CTL_MOD, 0);
      return;
    }
  }
  if (!reply->has_head)
    taken = read_head(reply, bytes, count);
  if (reply->has_head && read_body(reply, bytes + taken, count - taken))
    end_reply(one);
}

static void receive(struct client *one) {
  static char input[INPUT_BYTES];
  ssize_t count = recv(one->socket, input, sizeof input, MSG_DONTWAIT);
  if (count < 0 && errno == EAGAIN)
    return;
  heard_ns = now_ns();
  if (count > 0) {
    if (one->is_asking)
      hear(one, input, (size_t)count);
    return;
  }
  if (one->is_asking)
    tell_error("a connection was closed before its reply was complete", "");
  reconnect(one);
  ask_again(one);
}

static char *read_file(const char *name, size_t *bytes) {
  char *content = grown(NULL, MOST_BODY_BYTES);
  FILE *file = fopen(name, "rb");
  if (!file)
    die(name);
  *bytes = fread(content, 1, MOST_BODY_BYTES, file);
  if (ferror(file) || !feof(file))
    die("the body is too long or cannot be read");
  fclose(file);
  return content;
}

static void make_request(const char *body_file) {
  size_t body_bytes = 0;
  char *body = body_file ? read_file(body_file, &body_bytes) : NULL;
  request = grown(NULL, body_bytes + MOST_HEAD_BYTES);
  request_bytes = (size_t)snprintf(
      request, MOST_HEAD_BYTES,
      "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: bench\r\nAccept: */*\r\n"
      "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
      path, port, body_bytes);
  memcpy(request + request_bytes, body, body_bytes);
  request_bytes += body_bytes;
  free(body);
}

static void read_options(int count, char **arguments) {
  const char *body_file = NULL;
  int option;
  while ((option = getopt(count, arguments, "p:P:c:d:w:b:t:s")) > 0) {
    switch (option) {
    case 'p': port = atoi(optarg); break;
    case 'P': path = optarg; break;
    case 'c': client_count = atoi(optarg); break;
    case 'd': run_s = atof(optarg); break;
    case 'w': warm_up_s = atof(optarg); break;
    case 'b': body_file = optarg; break;
    case 't': wanted_tokens = atol(optarg); break;
    case 's': stalls = true; break;
    default: exit(2);
    }
  }
  make_request(body_file);
}

/* Let the clients begin one after the other: all at once would measure the rush. */
static int begin_clients(struct client *clients, int begun, uint64_t began_ns) {
  double each_ns = warm_up_s * RAMP * (double)NS_PER_S / client_count;
  while (begun < client_count && (double)(now_ns() - began_ns) >= each_ns * begun)
    ask(&clients[begun++]);
  return begun;
}

static bool is_over(const struct client *clients) {
  uint64_t now = now_ns();
  if (now < ends_ns && errors < MOST_ERRORS)
    return false;
  if (stalls || errors >= MOST_ERRORS || now >= ends_ns + DRAIN_NS)
    return true;
  for (int index = 0; index < client_count; index++)
    if (clients[index].is_asking)
      return false;
  return true;
}

static void print_result(const struct client *clients) {
  int unanswered = 0;
  for (int index = 0; index < client_count; index++)
    unanswered += clients[index].is_asking && !clients[index].has_first_byte;
  printf("{\"seconds\":%.3f,\"requests\":%llu,\"tokens\":%llu,\"all_requests\":%llu,\"all_tokens\":%llu,"
         "\"errors\":%llu,\"unanswered\":%d,\"first_byte_p50_us\":%.1f,\"first_byte_p99_us\":%.1f,"
         "\"whole_p50_us\":%.1f,\"whole_p99_us\":%.1f,\"transit_p50_us\":%.1f,\"transit_p99_us\":%.1f}\n",
         run_s, (unsigned long long)requests, (unsigned long long)tokens, (unsigned long long)all_requests,
         (unsigned long long)all_tokens, (unsigned long long)errors, unanswered, percentile_us(&first_byte, 0.5),
         percentile_us(&first_byte, 0.99), percentile_us(&whole, 0.5), percentile_us(&whole, 0.99),
         percentile_us(&transit, 0.5), percentile_us(&transit, 0.99));
}

int main(int count, char **arguments) {
  struct epoll_event events[MOST_EVENTS];
  struct client *clients;
  uint64_t began_ns;
  int begun = 0;
  read_options(count, arguments);
  prepare_process();
  poller = epoll_create1(0);
  clients = grown(NULL, (size_t)client_count * sizeof *clients);
  memset(clients, 0, (size_t)client_count * sizeof *clients);
  for (int index = 0; index < client_count; index++)
    connect_client(&clients[index]);
  began_ns = now_ns();
  measured_from_ns = began_ns + (uint64_t)(warm_up_s * (double)NS_PER_S);
  ends_ns = measured_from_ns + (uint64_t)(run_s * (double)NS_PER_S);
  while (!is_over(clients)) {
    int ready;
    begun = begin_clients(clients, begun, began_ns);
    ready = epoll_wait(poller, events, MOST_EVENTS, begun < client_count ? 1 : LONGEST_WAIT_MS);
    for (int index = 0; index < ready; index++) {
      struct client *one = events[index].data.ptr;
      if (events[index].events & EPOLLOUT)
        send_request(one);
      if (events[index].events & ~(uint32_t)EPOLLOUT)
        receive(one);
    }
  }
  print_result(clients);
  free(clients);
  free(request);
  return 0;
}
