// npm `@lmstudio/sdk`: LM Studio's own client for JavaScript, which speaks WebSockets with compression offered.
import { LMStudioClient } from "@lmstudio/sdk";
import * as d from "./driving.mjs";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const client = new LMStudioClient({ baseUrl: d.URL_.replace("http:", "ws:"), logger: quiet });
const model = await client.llm.model(d.MODEL);
const exact = { temperature: 0, maxTokens: d.TOKENS };

async function chat() {
  const reply = await model.respond(d.QUESTION, exact);
  return [reply.content, reply.stats.stopReason, reply.stats.predictedTokensCount];
}

async function abort() {
  const prediction = model.respond(d.LONG);
  const found = [];
  for await (const part of prediction) {
    found.push(part.content);
    if (found.length === d.PARTS_BEFORE_LEAVING) await prediction.cancel();
  }
  return found.slice(0, d.PARTS_BEFORE_LEAVING);
}

await d.drive({
  chat,
  stream: () => d.all(model.respond(d.QUESTION, exact), (part) => part.content),
  listing: async () => (await client.system.listDownloadedModels()).map((one) => one.modelKey),
  running: async () => (await client.llm.listLoaded()).map((one) => one.identifier),
  error: async () => (await client.llm.model(d.UNKNOWN)).identifier,
  abort,
});
