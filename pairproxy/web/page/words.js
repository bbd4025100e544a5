// Numbers and names as a person reads them. The same digits as the commands print.

import { h } from "./dom.js";

const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]/gu; // control characters, and those that turn the writing around
export const UNKNOWN = "not known";
const SHORT = 8; // characters of an id: it is found by its beginning
const ID = /^[0-9a-f]{32}$/; // one that the daemon gave

/** Seconds; never more digits than were measured. */
export function seconds(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (Math.abs(value) < 600) return `${value.toFixed(2)} s`;
  return duration(value);
}

/** Seconds that only count roughly: ages. */
export function duration(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 100) return `${value.toFixed(0)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 100) return `${minutes} min ${Math.floor(value % 60)} s`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} days`;
}

export const ratio = (value) => (value === null || value === undefined ? UNKNOWN : value.toFixed(2));
export const percent = (value) => (value === null || value === undefined ? UNKNOWN : `${(value * 100).toFixed(0)}%`);
export const rate = (value) => `${value < 10 && value > 0 ? value.toFixed(1) : value.toFixed(0)} tok/s`;
export const known = (value) => (value === null || value === undefined ? UNKNOWN : String(value));
export const counted = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
export const short = (id) => plain(id).slice(0, SHORT);

/** The name of a run or a chain; of one without, the beginning of its id. */
export const called = (run) => (ID.test(run) ? short(run) : plain(run));

/** What others named: one line, nothing that hides or turns around what stands beside it. */
export const plain = (text) => String(text).replace(UNSEEN, " ").trim() || "(no name)";

/** The same, apart from the writing direction of what stands around it. */
export const name = (text) => h("bdi", {}, plain(text));

/** A sentence of ours, in which `this` is a command, a setting or a name to type. */
export const prose = (text) =>
  plain(text).split(/`([^`]+)`/).map((part, index) => (index % 2 ? h("code", {}, part) : part));

/** {done: 4, failed: 1} as "4 done, 1 failed", in the order of the words. */
export const outcomes = (counts) =>
  Object.keys(counts).sort().map((outcome) => `${counts[outcome]} ${outcome}`).join(", ") || "none";

/** A moment of the epoch, in this browser's own way. */
export const when = (unix) =>
  new Date(unix * 1000).toLocaleString(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** The name of a node by its id. */
export const nodeName = (names, id) => (id === null || id === undefined ? UNKNOWN : plain(names[id] ?? short(id)));
