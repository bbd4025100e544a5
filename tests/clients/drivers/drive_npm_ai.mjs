// npm `ai` with `@ai-sdk/openai-compatible`.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateText, jsonSchema, streamText, tool } from "ai";
import * as d from "./driving.mjs";

const provider = createOpenAICompatible({ name: "local", baseURL: `${d.URL_}/v1`, includeUsage: true });
const exact = {
  model: provider(d.MODEL), prompt: d.QUESTION, temperature: 0, seed: 1, maxOutputTokens: d.TOKENS,
  maxRetries: 0, providerOptions: { local: d.COLD },
};
const weather = tool({ description: "The weather of a city", inputSchema: jsonSchema(d.PARAMETERS) });

async function whole(more) {
  const reply = await generateText({ ...exact, ...more });
  const calls = reply.toolCalls.map((call) => [call.toolName, call.input]);
  return [reply.text, calls, reply.finishReason, reply.usage.outputTokens];
}

async function abort() {
  const leaving = new AbortController();
  const found = [];
  const { textStream } = streamText({
    ...exact, prompt: d.LONG, maxOutputTokens: d.LONG_TOKENS, abortSignal: leaving.signal,
    providerOptions: { local: d.ENDLESS },
  });
  for await (const text of textStream) {
    found.push(text);
    if (found.length === d.PARTS_BEFORE_LEAVING) leaving.abort();
  }
  return found.slice(0, d.PARTS_BEFORE_LEAVING);
}

await d.drive({
  chat: whole,
  stream: () => d.all(streamText(exact).textStream, (text) => text),
  tools: () => whole({ tools: { weather } }),
  embeddings: async () =>
    d.numbers((await embedMany({ model: provider.embeddingModel(d.MODEL), values: d.TEXTS, maxRetries: 0 })).embeddings),
  error: () => whole({ model: provider(d.UNKNOWN) }),
  abort,
});
