// npm `ollama`: Ollama's own client for JavaScript.
import { Ollama } from "ollama";
import * as d from "./driving.mjs";

const client = new Ollama({ host: d.URL_ });
const messages = [{ role: "user", content: d.QUESTION }];
const exact = { model: d.MODEL, messages, options: d.OLLAMA_OPTIONS };
const steady = (part) => [
  part.message.content, part.done, part.done_reason, part.prompt_eval_count, part.eval_count,
];

async function tools() {
  const { message } = await client.chat({ ...exact, tools: [d.TOOL] });
  const calls = (message.tool_calls ?? []).map((call) => [call.function.name, call.function.arguments]);
  return { role: message.role, content: message.content, calls };
}

async function abort() {
  const long = [{ role: "user", content: d.LONG }];
  const stream = await client.chat({ ...exact, messages: long, options: d.OLLAMA_ENDLESS, stream: true });
  const found = [];
  try {
    for await (const part of stream) {
      found.push(steady(part));
      if (found.length === d.PARTS_BEFORE_LEAVING) stream.abort();
    }
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  }
  return found.slice(0, d.PARTS_BEFORE_LEAVING);
}

await d.drive({
  chat: async () => steady(await client.chat(exact)),
  stream: async () => d.all(await client.chat({ ...exact, stream: true }), steady),
  generate: async () =>
    (await client.generate({ model: d.MODEL, prompt: d.QUESTION, options: d.OLLAMA_OPTIONS })).response,
  tools,
  embeddings: async () => d.numbers((await client.embed({ model: d.MODEL, input: d.TEXTS })).embeddings),
  listing: async () => (await client.list()).models,
  running: async () => (await client.ps()).models,
  showing: () => client.show({ model: d.MODEL }),
  error: async () => steady(await client.chat({ ...exact, model: d.UNKNOWN })),
  abort,
});
