// What every npm driver shares: the same questions, and one line of JSON with what came back.
// Started as `node drive_x.mjs URL MODEL`, URL being http://host:port. A call returns what must be the same each
// time, never ids or times.

export const [URL_, MODEL] = process.argv.slice(2);
export const UNKNOWN = "nobody:1b";
export const QUESTION = "Name three rivers of Europe.";
export const LONG = "Count from one to one thousand.";
export const TEXTS = ["a river", "a stone"];
export const TOKENS = 12;
export const LONG_TOKENS = 1500;
export const PARTS_BEFORE_LEAVING = 2;
// Without a cached prefix, which is summed in another order; engines that do not know the key ignore it.
export const COLD = { cache_prompt: false };
// A reply that is still being made when its reader leaves, whatever the model would rather do.
export const ENDLESS = { ...COLD, ignore_eos: true };
export const OLLAMA_OPTIONS = { temperature: 0, seed: 1, num_predict: TOKENS, ...COLD };
export const OLLAMA_ENDLESS = { ...OLLAMA_OPTIONS, ...ENDLESS, num_predict: LONG_TOKENS };
export const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string", description: "Its name" } },
  required: ["city"],
};
export const TOOL = {
  type: "function",
  function: { name: "weather", description: "The weather of a city", parameters: PARAMETERS },
};

export async function drive(calls) {
  const results = {};
  for (const [name, call] of Object.entries(calls)) {
    try {
      results[name] = (await call()) ?? null;
    } catch (error) {
      results[name] = failure(error);
    }
  }
  process.stdout.write(JSON.stringify(results) + "\n", () => process.exit(0));
}

// What a program sees of an error.
export function failure(error) {
  const status = error.status ?? error.status_code ?? error.statusCode ?? null;
  return { failure: error.constructor?.name ?? error.name, status, message: String(error.message) };
}

export async function all(stream, told) {
  const found = [];
  for await (const part of stream) found.push(told(part));
  return found;
}

// The size and start of each vector: enough to tell two apart, short enough to read.
export function numbers(vectors) {
  return vectors.map((vector) => [
    vector.length,
    ...vector.slice(0, 4).map((value) => Number(value.toFixed(6))),
  ]);
}
