// What else was asked of the daemon: kept until it changes, never more than a few, and asked for once at a time.

import { get } from "./live.js";

const MOST = 12; // answers that are kept; the report of 2,000 requests has about a megabyte
const REST = 10; // times as long as an answer took nobody asks for it again, so that a large run costs little
const LEAST_MS = 1_000;

export class Store {
  /** renew(): something came. */
  constructor(renew) {
    this.renew = renew;
    this.kept = new Map(); // path -> {value, error, status, at (seconds of the epoch), isStale, isAsked}
  }

  /** What is known of a path now; asks for it where that is nothing, or old. Empty: it is on its way. */
  ask(path) {
    const known = this.kept.get(path) ?? { isStale: true };
    this.kept.delete(path);
    this.kept.set(path, known); // the last used is the last to go
    if (known.isStale && !known.isAsked) this.fetch(path, known);
    for (const oldest of [...this.kept.keys()].slice(0, -MOST)) this.kept.delete(oldest);
    return known;
  }

  async fetch(path, known) {
    known.isAsked = true;
    known.isStale = false;
    const began = performance.now();
    const found = await get(path);
    if (found.value === undefined && found.status === 0) known.isStale = true; // kept as it was, asked again
    else Object.assign(known, { value: undefined, error: undefined, status: 200, at: Date.now() / 1000 }, found);
    this.renew();
    const pause = Math.max(LEAST_MS, REST * (performance.now() - began));
    setTimeout(() => {
      known.isAsked = false;
      if (known.isStale) this.renew();
    }, pause);
  }

  /** Whatever was told of these paths may have changed. */
  outdate(isMeant = () => true) {
    for (const [path, known] of this.kept) if (isMeant(path)) known.isStale = true;
  }
}
