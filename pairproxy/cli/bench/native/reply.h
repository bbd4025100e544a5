/* Reading one reply as it comes: its head, its framing, and the times of sending within its payload. */

#define MARK_LENGTH 3 /* of TIME_MARK */
#define SIZE_DIGITS 16

enum framing { CHUNK_SIZE, CHUNK, CHUNK_END, TRAILERS };

struct reply {
  size_t head_bytes;
  bool has_head, is_chunked, closes;
  int status;
  size_t left;                /* of the body, or of its chunk */
  enum framing framing;
  char line[SIZE_DIGITS + 1]; /* the size of a chunk, or as much of a trailer */
  int line_length;
  int mark;                   /* how much of TIME_MARK and its digits was read */
  uint64_t sent_ns;
  long tokens;
  char head[MOST_HEAD_BYTES]; /* last: a new reply forgets all but this */
};

static void heard_token(uint64_t sent_ns); /* the generator's */

static int digit_of(char letter) {
  if (letter >= '0' && letter <= '9')
    return letter - '0';
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

static void read_mark(struct reply *reply, char letter) {
  if (letter == TIME_MARK[reply->mark])
    reply->mark++;
  else
    reply->mark = letter == TIME_MARK[0];
  reply->sent_ns = 0;
}

static void read_digit(struct reply *reply, char letter) {
  int digit = digit_of(letter);
  if (digit < 0) {
    reply->mark = 0;
    return;
  }
  reply->sent_ns = reply->sent_ns * 16 + (uint64_t)digit;
  if (++reply->mark < MARK_LENGTH + TIME_DIGITS)
    return;
  reply->mark = 0;
  reply->tokens++;
  heard_token(reply->sent_ns);
}

static void read_payload(struct reply *reply, const char *bytes, size_t count) {
  for (size_t index = 0; index < count; index++) {
    if (reply->mark == 0) { /* most of a payload is no mark: to the next that may be one */
      const char *next = memchr(bytes + index, TIME_MARK[0], count - index);
      if (!next)
        return;
      index = (size_t)(next - bytes);
    }
    if (reply->mark < MARK_LENGTH)
      read_mark(reply, bytes[index]);
    else
      read_digit(reply, bytes[index]);
  }
}

/* Take the payload that is left of `left` bytes; how many bytes were taken. */
static size_t take_payload(struct reply *reply, const char *bytes, size_t count) {
  size_t taken = count < reply->left ? count : reply->left;
  read_payload(reply, bytes, taken);
  reply->left -= taken;
  return taken;
}

/* A letter of a line between chunks. true: it was the last of the reply. */
static bool read_framing(struct reply *reply, char letter) {
  if (letter != '\n') {
    if (letter != '\r' && reply->line_length < SIZE_DIGITS)
      reply->line[reply->line_length++] = letter;
    return false;
  }
  reply->line[reply->line_length] = 0;
  if (reply->framing == CHUNK_SIZE) {
    reply->left = strtoull(reply->line, NULL, 16);
    reply->framing = reply->left ? CHUNK : TRAILERS;
  } else if (reply->framing == CHUNK_END) {
    reply->framing = CHUNK_SIZE;
  } else if (reply->line_length == 0) {
    return true;
  }
  reply->line_length = 0;
  return false;
}

/* true: the reply is complete. */
static bool read_body(struct reply *reply, const char *bytes, size_t count) {
  size_t index = 0;
  if (!reply->is_chunked) {
    take_payload(reply, bytes, count);
    return reply->left == 0;
  }
  while (index < count) {
    if (reply->framing != CHUNK) {
      if (read_framing(reply, bytes[index++]))
        return true;
      continue;
    }
    index += take_payload(reply, bytes + index, count - index);
    if (reply->left == 0)
      reply->framing = CHUNK_END;
  }
  return false;
}

/* Take bytes up to the end of the head; how many were taken. A head that is too long is left incomplete. */
static size_t read_head(struct reply *reply, const char *bytes, size_t count) {
  size_t room = sizeof reply->head - 1 - reply->head_bytes, taken = count < room ? count : room;
  size_t before = reply->head_bytes;
  const char *end, *value;
  memcpy(reply->head + before, bytes, taken);
  reply->head_bytes += taken;
  reply->head[reply->head_bytes] = 0;
  end = memmem(reply->head, reply->head_bytes, "\r\n\r\n", 4);
  if (!end)
    return taken;
  reply->has_head = true;
  reply->head_bytes = (size_t)(end - reply->head) + 4;
  reply->status = reply->head_bytes > 12 ? atoi(reply->head + 9) : 0;
  reply->is_chunked = header(reply->head, reply->head_bytes, "transfer-encoding") != NULL;
  value = header(reply->head, reply->head_bytes, "content-length");
  reply->left = value && !reply->is_chunked ? strtoull(value, NULL, 10) : 0;
  value = header(reply->head, reply->head_bytes, "connection");
  reply->closes = value && !strncasecmp(value, "close", 5);
  return reply->head_bytes - before;
}
