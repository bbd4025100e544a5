// Which node holds which model: what can be shared, what cannot, and what to do about it.

import { h, note, table } from "./dom.js";
import { counted, name, nodeName, prose } from "./words.js";

const STATES = {
  same: ["\u25cf", "same"],
  different: ["\u25d0", "differs: other content"],
  unknown: ["?", "unknown content"],
  missing: ["\u2013", "not there"],
  away: ["\u25cb", "away: no answer"],
};

export function modelsView(state) {
  const { value: matrix, error, status } = state.store.ask("/models");
  if (status === 404) return listed(state.status);
  if (!matrix) return note(error ? "bad" : "hint", prose(error ?? "Asking for the models."));
  if (!matrix.models.length) return note("hint", "No engine here or at a peer has a model.");
  const columns = ["model", ...matrix.nodes.map((id) => ({ title: name(nodeName(matrix.names, id)) })), { title: "replicas", kind: "number" }, "what to know"];
  const rows = matrix.models.map((row) => ({ key: row.model, cells: [name(row.model), ...row.cells.map(cell), row.replicas, known(row)] }));
  return table("Models by node", columns, rows, { class: "scroll models" });
}

function cell(one) {
  const [mark, word] = STATES[one.state] ?? STATES.unknown;
  const more = [
    one.is_loaded ? "loaded" : null,
    one.slots ? counted(one.slots, "slot") : null,
    one.context_tokens ? `window ${one.context_tokens}` : null,
    one.decode_tokens_per_s === null ? null : `${one.decode_tokens_per_s.toFixed(0)} tok/s`,
  ].filter(Boolean);
  return h("div", { class: `replica ${one.state}` }, h("span", { "aria-hidden": "true" }, mark, " "), word, more.length ? h("small", {}, more.join(", ")) : null);
}

function known(row) {
  const lines = [...row.differences, row.costs].filter(Boolean);
  return [lines.map((text) => h("p", { key: text }, prose(text))), row.fix ? h("p", { class: "fix" }, prose(row.fix)) : null];
}

/** What the status tells, where there is no matrix. */
function listed(status) {
  const rows = status.nodes.flatMap((node) =>
    node.engines.flatMap((engine) =>
      engine.replicas.map((one) => ({ key: `${node.node} ${engine.engine} ${one.model}`, cells: [name(one.model), name(node.name), name(engine.kind), one.is_loaded ? "loaded" : "not loaded"] })),
    ),
  );
  return table("Models", ["model", "node", "engine", "state"], rows);
}
