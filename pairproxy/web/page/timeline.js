// A run as a picture, and the same as a table for those who cannot see it, or want the numbers.

import { h, table } from "./dom.js";
import { Plot } from "./plot.js";
import { counted, name, nodeName, seconds, short } from "./words.js";

const ROWS = 100; // of the table at a time
const LEGEND = [
  ["waiting", "waits"],
  ["load", "the model is loaded"],
  ["prefill", "reads the prompt"],
  ["decode", "writes the reply"],
  ["failed", "led to nothing"],
  ["end", "end of the run"],
];

export function timeline(state, report) {
  const line = report.timeline;
  if (!line || !(line.bars.length + line.unplaced.length)) return null;
  const nodes = new Set(line.lanes.map((lane) => lane.node)).size;
  const what = `${counted(line.bars.length, "attempt")} in ${counted(line.lanes.length, "slot")} of ${counted(nodes, "node")}, ${counted(line.waves, "wave")}, ${seconds(line.makespan_s)}`;
  const label = `Timeline: ${what}. Arrow keys go from bar to bar, Enter opens one, plus and minus zoom. The table below says the same.`;
  return h(
    "figure",
    { class: "timeline", key: `timeline ${report.run.run}` },
    h("figcaption", {}, h("strong", {}, "Timeline"), " ", what, legend(line)),
    h("div", { class: "plot", draw: (node) => Plot.of(node).show(report, label) }),
    line.unplaced.length ? h("p", { class: "muted" }, `${counted(line.unplaced.length, "request")} found no node, and are only in the table.`) : null,
    requests(state, report),
  );
}

function legend(line) {
  const entries = line.lower_bound_s === null ? LEGEND : [...LEGEND, ["bound", `no schedule ends before ${seconds(line.lower_bound_s)}`]];
  return h("ul", { class: "legend" }, entries.map(([kind, text]) => h("li", { key: kind }, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), text)));
}

const COLUMNS = ["request", "node", "slot", "wave", "came", "sent", "first byte", "ended", "end", "model"].map((title, index) =>
  index > 1 && index < 8 ? { title, kind: "number" } : { title },
);

/** Made only once it is opened: thousands of rows take their time. */
function requests(state, report) {
  const run = report.run.run;
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
  const rows = count ? rowsOf(report) : [];
  return h(
    "details",
    { ontoggle },
    h("summary", {}, "The same as a table"),
    count ? table("Attempts by when they were sent", COLUMNS, rows.slice(0, count)) : null,
    count && rows.length > count ? h("button", { type: "button", onclick: more }, `Show more (${rows.length - count} left)`) : null,
  );
}

function rowsOf({ timeline: line, names }) {
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
