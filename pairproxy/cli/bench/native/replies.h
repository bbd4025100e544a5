/* What the upstream answers: tokens of two dialects, each with the time of its sending, and whole documents. */

#define OUTPUT_BYTES 1024     /* the longest answer or token, with its framing */
#define PAYLOAD_BYTES 768
#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" /* as Ollama names contents */

struct connection {
  struct turn turn; /* first, so that a turn is its connection */
  int socket;
  char *input;
  size_t held, room;           /* bytes of input, and what fits */
  size_t head_bytes;           /* 0: the head is not complete */
  size_t body_bytes, searched; /* told by the head; of a chunked body: how far its end was looked for */
  bool is_chunked, closes;
  bool is_streaming, is_ndjson, is_ended; /* is_ended: the last chunk is in output */
  long tokens, left;
  uint64_t gap_ns;
  char output[OUTPUT_BYTES];
  size_t output_bytes, output_sent;
  bool awaits_room;
};

static const char *model = "bench:latest"; /* as Ollama writes names, so that every router knows it */

static void put_chunk(struct connection *one, const char *payload, int bytes) {
  const char *end = one->is_ended ? "0\r\n\r\n" : "";
  one->output_bytes = (size_t)snprintf(one->output, OUTPUT_BYTES, "%x\r\n%s\r\n%s", bytes, payload, end);
}

static void put_ndjson(struct connection *one) {
  char payload[PAYLOAD_BYTES];
  const char *begin = "{\"model\":\"%s\",\"created_at\":\"2026-01-01T00:00:00.000000Z\","
                      "\"message\":{\"role\":\"assistant\",\"content\":\"";
  int bytes = snprintf(payload, sizeof payload, begin, model);
  one->is_ended = one->left == 0;
  if (one->is_ended)
    bytes += snprintf(payload + bytes, sizeof payload - (size_t)bytes,
                      "\"},\"done\":true,\"done_reason\":\"stop\",\"total_duration\":1000000,\"load_duration\":1000,"
                      "\"prompt_eval_count\":9,\"prompt_eval_duration\":1000,\"eval_count\":%ld,"
                      "\"eval_duration\":1000000}\n",
                      one->tokens);
  else
    bytes += snprintf(payload + bytes, sizeof payload - (size_t)bytes, TIME_MARK "%016llx \"},\"done\":false}\n",
                      (unsigned long long)now_ns());
  put_chunk(one, payload, bytes);
  one->left--;
}

static void put_event(struct connection *one) {
  char payload[PAYLOAD_BYTES];
  int bytes;
  one->is_ended = one->left == 0;
  if (one->is_ended)
    bytes = snprintf(payload, sizeof payload, "data: [DONE]\n\n");
  else
    bytes = snprintf(payload, sizeof payload,
                     "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
                     "\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\""
                     TIME_MARK "%016llx \"},\"finish_reason\":%s}]}\n\n",
                     model, (unsigned long long)now_ns(), one->left == 1 ? "\"stop\"" : "null");
  put_chunk(one, payload, bytes);
  one->left--;
}

/* Whether the first line of the request has this text. */
static const char *in_line(const struct connection *one, const char *text) {
  const char *end = memchr(one->input, '\r', one->head_bytes);
  return memmem(one->input, (size_t)(end - one->input), text, strlen(text));
}

static void put_stream_head(struct connection *one) {
  one->is_ndjson = in_line(one, "/api/") != NULL;
  one->output_bytes = (size_t)snprintf(
      one->output, OUTPUT_BYTES,
      "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n",
      one->is_ndjson ? "application/x-ndjson" : "text/event-stream");
}

/* What is answered at once: a listing, a sign of life, a whole reply; nothing (0) for a path we do not have. */
static int write_document(char *payload, size_t room, const struct connection *one) {
  unsigned long long now = now_ns();
  if (in_line(one, "GET /v1/models"))
    return snprintf(payload, room,
                    "{\"object\":\"list\",\"data\":[{\"id\":\"%s\",\"object\":\"model\",\"created\":1,"
                    "\"owned_by\":\"bench\"}]}",
                    model);
  if (in_line(one, "GET /api/tags") || in_line(one, "GET /api/ps"))
    return snprintf(payload, room,
                    "{\"models\":[{\"name\":\"%s\",\"model\":\"%s\",\"size\":1000000,\"size_vram\":1000000,"
                    "\"digest\":\"" DIGEST "\",\"modified_at\":\"2026-01-01T00:00:00Z\","
                    "\"expires_at\":\"2027-01-01T00:00:00Z\",\"details\":{\"format\":\"gguf\","
                    "\"family\":\"llama\",\"parameter_size\":\"1B\",\"quantization_level\":\"Q4_0\"}}]}",
                    model, model);
  if (in_line(one, "GET /api/version"))
    return snprintf(payload, room, "{\"version\":\"0.12.0\"}");
  if (in_line(one, "_info ")) /* what sglang-router asks its workers: /get_model_info, /get_server_info */
    return snprintf(payload, room,
                    "{\"model_path\":\"%s\",\"tokenizer_path\":\"%s\",\"is_generation\":true,"
                    "\"served_model_name\":\"%s\",\"version\":\"0.5\",\"dp_size\":1,\"model_type\":\"llama\"}",
                    model, model, model);
  if (in_line(one, "GET /health") || in_line(one, "GET /set?") || in_line(one, "GET / "))
    return snprintf(payload, room, "{}");
  if (!memcmp(one->input, "GET ", 4))
    return 0;
  if (in_line(one, "/api/"))
    return snprintf(payload, room,
                    "{\"model\":\"%s\",\"created_at\":\"2026-01-01T00:00:00Z\",\"message\":{\"role\":\"assistant\","
                    "\"content\":\"" TIME_MARK "%016llx \"},\"done\":true,\"done_reason\":\"stop\","
                    "\"prompt_eval_count\":9,\"eval_count\":1,\"eval_duration\":1000000}",
                    model, now);
  return snprintf(payload, room,
                  "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"%s\","
                  "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"" TIME_MARK
                  "%016llx \"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,"
                  "\"completion_tokens\":1,\"total_tokens\":10}}",
                  model, now);
}

static void put_document(struct connection *one) {
  char payload[PAYLOAD_BYTES];
  int bytes = write_document(payload, sizeof payload, one);
  one->output_bytes = (size_t)snprintf(
      one->output, OUTPUT_BYTES, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
      bytes ? "200 OK" : "404 Not Found", bytes, bytes ? payload : "");
}
