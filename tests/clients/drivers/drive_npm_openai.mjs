// npm `openai`: chat completions, responses, embeddings and models.
import OpenAI from "openai";
import * as d from "./driving.mjs";

const client = new OpenAI({ baseURL: `${d.URL_}/v1`, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: d.QUESTION }];
const exact = { model: d.MODEL, messages, temperature: 0, seed: 1, max_tokens: d.TOKENS, ...d.COLD };
const response = {
  model: d.MODEL, input: d.QUESTION, max_output_tokens: d.TOKENS, temperature: 0, ...d.COLD,
};

async function chat(more) {
  const reply = await client.chat.completions.create({ ...exact, ...more });
  const { message, finish_reason } = reply.choices[0];
  const calls = (message.tool_calls ?? []).map((call) => [call.function.name, call.function.arguments]);
  return [message.content, calls, finish_reason, reply.usage.completion_tokens];
}

async function stream() {
  const parts = await client.chat.completions.create({
    ...exact, stream: true, stream_options: { include_usage: true },
  });
  return d.all(parts, (part) => [
    part.choices[0]?.delta.content, part.choices[0]?.finish_reason, part.usage?.completion_tokens,
  ]);
}

async function responses() {
  const reply = await client.responses.create(response);
  return [reply.output_text, reply.status];
}

// llama.cpp says "created now", whenever it is asked.
function entry({ created, ...rest }) {
  return rest.owned_by === "llamacpp" ? rest : { created, ...rest };
}

async function abort() {
  const long = [{ role: "user", content: d.LONG }];
  const parts = await client.chat.completions.create({
    ...exact, messages: long, max_tokens: d.LONG_TOKENS, ...d.ENDLESS, stream: true,
  });
  const found = [];
  for await (const part of parts) {
    found.push(part.choices[0].delta.content);
    if (found.length === d.PARTS_BEFORE_LEAVING) break;
  }
  return found;
}

await d.drive({
  chat,
  stream,
  tools: () => chat({ tools: [d.TOOL] }),
  responses,
  responses_stream: async () =>
    d.all(await client.responses.create({ ...response, stream: true }), (one) => [one.type, one.delta]),
  embeddings: async () =>
    d.numbers((await client.embeddings.create({ model: d.MODEL, input: d.TEXTS })).data.map((one) => one.embedding)),
  listing: async () => d.all(await client.models.list(), entry),
  retrieving: async () => entry(await client.models.retrieve(d.MODEL)),
  error: () => chat({ model: d.UNKNOWN }),
  abort,
});
