// A run as a picture, and the same as a table for those who cannot see it, or want the numbers.

import { h, table } from "./dom.js";
import { Plot } from "./plot.js";
import { counted, name, nodeName, plain, seconds, short } from "./words.js";

const ROWS = 100; // of the table at a time
const WORDS = {
  waiting: "waits",
  load: "the model is loaded",
  prefill: "reads the prompt",
  decode: "writes the reply",
  failed: "led to nothing",
};

/** The picture of a run: `line` is its timeline, `names` its nodes', `id` the run's. */
export function timeline(state, line, names, id) {
  if (!line || !(line.bars.length + line.unplaced.length)) return null;
  const used = line.lanes.filter((lane) => lane.slot);
  const nodes = new Set(used.map((lane) => lane.node)).size;
  const what = `${counted(line.bars.length, "attempt")} in ${counted(used.length, "slot")} of ${counted(nodes, "node")}, at most ${line.waves} in one slot, ${seconds(line.makespan_s)}`;
  // Said once: a name that changed with each second would be read out again and again.
  const label = `Timeline of ${plain(id)}. Arrow keys go from bar to bar, Enter opens one, plus and minus zoom. The table below says the same.`;
  const lost = line.isGrowing ? 0 : line.unplaced.length;
  return h(
    "figure",
    { class: "timeline", key: `timeline ${id}` },
    h("figcaption", {}, h("strong", {}, "Timeline"), " ", what, legend(line)),
    h("div", { class: "plot", draw: (node) => Plot.of(node).show(line, names, label) }),
    lost ? h("p", { class: "muted" }, `${counted(lost, "request")} found no node, and ${lost === 1 ? "is" : "are"} only in the table.`) : null,
    requests(state, line, names, id),
  );
}

function legend(line) {
  const isThere = { load: line.bars.some((bar) => bar.load_s > 0), failed: line.bars.some((bar) => !["done", "running"].includes(bar.end)) };
  const entries = Object.entries(WORDS).filter(([kind]) => isThere[kind] ?? true);
  entries.push(["end", line.isGrowing ? "now" : "end of the run"]);
  if (line.lower_bound_s !== null) entries.push(["bound", `no schedule ends before ${seconds(line.lower_bound_s)}`]);
  return h("ul", { class: "legend" }, entries.map(([kind, text]) => h("li", { key: kind }, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), text)));
}

const COLUMNS = ["request", "node", "slot", "wave", "came", "sent", "first byte", "ended", "end", "model"].map((title, index) =>
  index > 1 && index < 8 ? { title, kind: "number" } : { title },
);

/** Made only once it is opened: thousands of rows take their time. */
function requests(state, line, names, run) {
  const shown = (state.rows ??= {});
  const ontoggle = (event) => {
    shown[run] = event.target.open ? (shown[run] ?? ROWS) : 0;
    state.redraw();
  };
  const more = () => {
    shown[run] += ROWS;
    state.redraw();
  };
  const count = shown[run] ?? 0;
  const rows = count ? rowsOf(line, names) : [];
  return h(
    "details",
    { ontoggle },
    h("summary", {}, "The same as a table"),
    count ? table("Attempts by when they were sent", COLUMNS, rows.slice(0, count)) : null,
    count && rows.length > count ? h("button", { type: "button", onclick: more }, `Show more (${rows.length - count} left)`) : null,
  );
}

function rowsOf(line, names) {
  const placed = line.bars.map((bar) => {
    const lane = line.lanes[bar.lane];
    const first = bar.first_byte_s === null ? "none" : seconds(bar.first_byte_s);
    const times = [seconds(bar.waiting_s), seconds(bar.dispatched_s), first, seconds(bar.ended_s)];
    const cells = [linkTo(bar.request), name(nodeName(names, lane.node)), lane.slot, bar.wave, ...times, bar.end, name(bar.model)];
    return { key: `${bar.request} ${bar.attempt}`, cells };
  });
  const others = line.unplaced.map((one) => ({
    key: one.request,
    cells: [linkTo(one.request), "none", "", "", seconds(one.waiting_s), "", "none", seconds(one.ended_s), one.outcome, name(one.model)],
  }));
  return [...placed, ...others];
}

/** A request's id, leading to how it was decided. */
export const linkTo = (request) => h("a", { href: `#/requests/${encodeURIComponent(request)}`, class: "id" }, short(request));
