/* An engine that computes nothing: fast_upstream PORT [MODEL]. One thread, HTTP/1.1 with keep-alive.
 *
 * A body with "stream": true is answered by a stream of chunks, one send() for each token; any other by a small
 * document. Paths under /api/ speak as Ollama does, all others as OpenAI does. Every token carries the time at
 * which it was sent (TIME_MARK), by which the load generator knows how long it was under way.
 *
 * GET /set?tokens=100&gap_us=10000 says how the streams that come are: how many tokens, how far apart.
 */
#include "wire.h"
#include "turns.h"
#include "replies.h"

#define FIRST_ROOM_BYTES 4096 /* of a connection's input; it doubles as bodies need */
#define STEPS_AT_ONCE 4096    /* due tokens sent before sockets are looked at again */

enum sent { SENT, BLOCKED, GONE };

static int poller;
static long stream_tokens = 100;
static uint64_t stream_gap_ns = 0;

/* --- bytes out --- */

static void forget(struct connection *one) {
  wait_no_more(&one->turn);
  unready(&one->turn);
  close(one->socket);
  free(one->input);
  free(one);
}

static void watch(struct connection *one, bool awaits_room) {
  struct epoll_event event = {.events = EPOLLIN | (awaits_room ? EPOLLOUT : 0), .data.ptr = one};
  if (one->awaits_room == awaits_room)
    return;
  if (epoll_ctl(poller, EPOLL_CTL_MOD, one->socket, &event))
    die("epoll_ctl");
  one->awaits_room = awaits_room;
}

static enum sent flush(struct connection *one) {
  while (one->output_sent < one->output_bytes) {
    ssize_t count = send(one->socket, one->output + one->output_sent, one->output_bytes - one->output_sent, 0);
    if (count < 0) {
      if (errno != EAGAIN)
        return GONE;
      watch(one, true);
      return BLOCKED;
    }
    one->output_sent += (size_t)count;
  }
  one->output_bytes = one->output_sent = 0;
  watch(one, false);
  return SENT;
}

static bool answer_requests(struct connection *one);

/* What the stream does after a token that went out whole. */
static void schedule_next(struct connection *one) {
  uint64_t now;
  if (one->gap_ns == 0 || one->left == 0) { /* the last token and the end come together, as engines send them */
    make_ready(&one->turn);
    return;
  }
  now = now_ns();
  one->turn.due_ns += one->gap_ns;
  if (one->turn.due_ns < now)
    one->turn.due_ns = now;
  if (one->turn.place < 0)
    wait_for_time(&one->turn);
}

/* Go on after what was put into output. false: the connection is to be closed. */
static bool send_on(struct connection *one) {
  enum sent sent = flush(one);
  if (sent != SENT)
    return sent == BLOCKED; /* resumed when there is room */
  if (one->is_streaming && !one->is_ended) {
    schedule_next(one);
    return true;
  }
  one->is_streaming = false;
  return !one->closes && answer_requests(one);
}

static bool send_token(struct connection *one) {
  if (one->is_ndjson)
    put_ndjson(one);
  else
    put_event(one);
  return send_on(one);
}

/* --- requests in --- */

static bool asks_for_stream(const char *body, size_t bytes) {
  const char *end = body + bytes, *found = body;
  while ((found = memmem(found, (size_t)(end - found), "\"stream\"", 8)) != NULL) {
    found += 8;
    while (found < end && (*found == ' ' || *found == ':'))
      found++;
    if (end - found >= 4 && !memcmp(found, "true", 4))
      return true;
  }
  return false;
}

static void set_streams(const struct connection *one) {
  const char *tokens = in_line(one, "tokens="), *gap = in_line(one, "gap_us=");
  if (tokens)
    stream_tokens = atol(tokens + 7);
  if (gap)
    stream_gap_ns = strtoull(gap + 7, NULL, 10) * 1000;
}

static void begin_stream(struct connection *one) {
  put_stream_head(one);
  one->is_streaming = true;
  one->is_ended = false;
  one->tokens = one->left = stream_tokens;
  one->gap_ns = stream_gap_ns;
  one->turn.due_ns = now_ns();
}

/* What the head says of the body. false: it is too long, or the body is. */
static bool read_head(struct connection *one) {
  const char *end = memmem(one->input, one->held, "\r\n\r\n", 4), *value;
  if (!end)
    return one->held < MOST_HEAD_BYTES;
  one->head_bytes = (size_t)(end - one->input) + 4;
  value = header(one->input, one->head_bytes, "content-length");
  one->body_bytes = value ? strtoull(value, NULL, 10) : 0;
  value = header(one->input, one->head_bytes, "connection");
  one->closes = value && !strncasecmp(value, "close", 5);
  one->is_chunked = header(one->input, one->head_bytes, "transfer-encoding") != NULL;
  one->searched = 0;
  return one->body_bytes <= MOST_BODY_BYTES;
}

/* Whether the whole body is here; of a chunked one the framing counts as part of it. */
static bool has_body(struct connection *one) {
  const char *body = one->input + one->head_bytes, *end;
  size_t here = one->held - one->head_bytes;
  if (!one->is_chunked)
    return here >= one->body_bytes;
  end = memmem(body + one->searched, here - one->searched, "0\r\n\r\n", 5);
  one->searched = here > 4 ? here - 4 : 0; /* its end may be cut in two */
  if (end)
    one->body_bytes = (size_t)(end - body) + 5;
  return end != NULL;
}

static void consume_request(struct connection *one) {
  size_t bytes = one->head_bytes + one->body_bytes;
  memmove(one->input, one->input + bytes, one->held - bytes);
  one->held -= bytes;
  one->head_bytes = 0;
}

/* Answer what is here, one after the other. false: the connection is to be closed. */
static bool answer_requests(struct connection *one) {
  while (one->held && !one->is_streaming && !one->output_bytes) {
    enum sent sent;
    if (!one->head_bytes && !read_head(one))
      return false;
    if (!one->head_bytes || !has_body(one))
      return true;
    if (in_line(one, "GET /set?"))
      set_streams(one);
    if (asks_for_stream(one->input + one->head_bytes, one->body_bytes))
      begin_stream(one);
    else
      put_document(one);
    consume_request(one);
    sent = flush(one); /* of a stream the head by itself, as engines send it */
    if (sent != SENT)
      return sent == BLOCKED;
    if (one->is_streaming)
      return send_token(one);
    if (one->closes)
      return false;
  }
  return true;
}

/* Take what has come. false: the connection is to be closed. */
static bool receive(struct connection *one) {
  ssize_t count;
  if (one->held == one->room) {
    if (one->room >= MOST_HEAD_BYTES + 2 * (size_t)MOST_BODY_BYTES)
      return false;
    one->room *= 2;
    one->input = grown(one->input, one->room);
  }
  count = recv(one->socket, one->input + one->held, one->room - one->held, 0);
  if (count <= 0)
    return count < 0 && errno == EAGAIN;
  one->held += (size_t)count;
  return answer_requests(one);
}

static void accept_all(int listener) {
  int socket;
  while ((socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
    struct connection *one = grown(NULL, sizeof *one);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    memset(one, 0, sizeof *one);
    one->socket = socket;
    one->turn.place = -1;
    one->room = FIRST_ROOM_BYTES;
    one->input = grown(NULL, one->room);
    send_at_once(socket);
    if (epoll_ctl(poller, EPOLL_CTL_ADD, socket, &event))
      die("epoll_ctl");
  }
}

static void serve_socket(struct connection *one, uint32_t events) {
  bool lives = true;
  if ((events & EPOLLOUT) && one->output_bytes)
    lives = send_on(one);
  if (lives && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
    lives = receive(one);
  if (!lives)
    forget(one);
}

static void send_turn(struct turn *turn) {
  struct connection *one = (struct connection *)turn;
  if (!send_token(one))
    forget(one);
}

static void send_what_is_due(void) {
  struct turn *turn = first_ready;
  first_ready = last_ready = NULL;
  while (turn) { /* who is ready again stands in the new list */
    struct turn *next = turn->next_ready;
    turn->is_ready = false;
    send_turn(turn);
    turn = next;
  }
  for (int step = 0; step < STEPS_AT_ONCE && heap_count && heap[0]->due_ns <= now_ns(); step++) {
    turn = heap[0];
    wait_no_more(turn);
    send_turn(turn);
  }
}

/* How long sockets may be waited for: not at all, until the next token is due, or for ever (NULL). */
static struct timespec *patience(struct timespec *room) {
  uint64_t now = now_ns(), left_ns = 0;
  if (!first_ready && !heap_count)
    return NULL;
  if (!first_ready && heap[0]->due_ns > now)
    left_ns = heap[0]->due_ns - now;
  room->tv_sec = (time_t)(left_ns / NS_PER_S);
  room->tv_nsec = (long)(left_ns % NS_PER_S);
  return room;
}

static int listen_on(int port) {
  struct sockaddr_in address = loopback(port);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
  int yes = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, MOST_FILES))
    die("the upstream cannot listen");
  poller = epoll_create1(0);
  if (poller < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event))
    die("epoll");
  return listener;
}

int main(int count, char **arguments) {
  struct epoll_event events[MOST_EVENTS];
  struct timespec room;
  int listener;
  if (count < 2) {
    fprintf(stderr, "usage: fast_upstream PORT [MODEL]\n");
    return 2;
  }
  if (count > 2)
    model = arguments[2];
  prepare_process();
  listener = listen_on(atoi(arguments[1]));
  for (;;) {
    int ready = epoll_pwait2(poller, events, MOST_EVENTS, patience(&room), NULL);
    if (ready < 0 && errno != EINTR)
      die("epoll_pwait2");
    for (int index = 0; index < ready; index++) {
      if (events[index].data.ptr)
        serve_socket(events[index].data.ptr, events[index].events);
      else
        accept_all(listener);
    }
    send_what_is_due();
  }
}
