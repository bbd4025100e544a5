// In which order the lanes of a timeline stand: this node first, then the others by name, one that did nothing, too.

import { nodeName } from "./words.js";

const kept = new WeakMap(); // a report is shown many times

/** A timeline with its lanes in order; each of `nodes` has one at least, empty if it served nothing. */
export function arranged(line, names, own, nodes) {
  if (!line) return null;
  if (!kept.has(line)) kept.set(line, arrange(line, names, own, nodes));
  return kept.get(line);
}

function arrange(line, names, own, nodes) {
  const used = new Set(line.lanes.map((lane) => lane.node));
  const idle = nodes.filter((node) => !used.has(node)).map((node) => ({ node, engine: "", slot: 0 }));
  const by = (one, other) =>
    Number(other.node === own) - Number(one.node === own) ||
    nodeName(names, one.node).localeCompare(nodeName(names, other.node), undefined, { numeric: true }) ||
    compare(one.node, other.node) ||
    compare(one.engine, other.engine) ||
    one.slot - other.slot;
  const lanes = [...line.lanes, ...idle];
  const order = lanes.map((_, index) => index).sort((one, other) => by(lanes[one], lanes[other]));
  const places = [];
  order.forEach((index, place) => (places[index] = place));
  return { ...line, lanes: order.map((index) => lanes[index]), bars: line.bars.map((bar) => ({ ...bar, lane: places[bar.lane] })) };
}

const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
