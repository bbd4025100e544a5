// npm `@anthropic-ai/sdk`: messages, streamed and whole.
import Anthropic from "@anthropic-ai/sdk";
import * as d from "./driving.mjs";

const client = new Anthropic({ baseURL: d.URL_, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: d.QUESTION }];
const exact = { model: d.MODEL, messages, max_tokens: d.TOKENS, temperature: 0, seed: 1, ...d.COLD };
const tool = { name: "weather", description: "The weather of a city", input_schema: d.PARAMETERS };
const told = (event) => [event.type, event.delta?.text];

async function whole(more) {
  const reply = await client.messages.create({ ...exact, ...more });
  const blocks = reply.content.map(({ id, ...rest }) => rest);
  return [blocks, reply.stop_reason, reply.usage.output_tokens];
}

async function abort() {
  const long = [{ role: "user", content: d.LONG }];
  const stream = await client.messages.create({
    ...exact, messages: long, max_tokens: d.LONG_TOKENS, ...d.ENDLESS, stream: true,
  });
  const found = [];
  for await (const event of stream) {
    found.push(told(event));
    if (found.length === d.PARTS_BEFORE_LEAVING) break;
  }
  return found;
}

await d.drive({
  chat: whole,
  stream: async () => d.all(await client.messages.create({ ...exact, stream: true }), told),
  text_stream: () => client.messages.stream(exact).finalText(),
  tools: () => whole({ tools: [tool] }),
  error: () => whole({ model: d.UNKNOWN }),
  abort,
});
