// The daemon's state as it changes: GET /events, and once that cannot be had, GET /status again and again. It is
// taken up anew when the daemon comes back, also another one at the same port. A hidden page asks for nothing.

const SILENT_MS = 15_000; // an idle daemon says something each 5 s
const AGAIN_MS = 1_000; // after a daemon that is not there
const POLL_MS = 2_000; // where there is a daemon but no place among its watchers

export class Live {
  /** heard(status); changed(): a run's report is another; linked(how, why): "live", "polling", "lost". */
  constructor(heard, changed, linked) {
    this.heard = heard;
    this.changed = changed;
    this.linked = linked;
    this.how = "";
    this.refused = 0; // streams in a row that told nothing
    this.timers = new Map();
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.start()));
    if (!document.hidden) this.start();
  }

  start() {
    this.stop();
    const source = (this.source = new EventSource("/events"));
    source.addEventListener("status", (event) => this.took(JSON.parse(event.data)));
    source.addEventListener("run", () => this.changed());
    source.onerror = () => this.failed();
    this.at("silent", SILENT_MS, () => this.failed());
  }

  stop() {
    this.source?.close();
    this.source = this.turn = null;
    for (const name of [...this.timers.keys()]) this.clear(name);
  }

  took(status) {
    this.refused = 0;
    this.at("silent", SILENT_MS, () => this.failed());
    this.is("live");
    this.heard(status);
  }

  /** The stream is broken: is there a daemon at all? */
  async failed() {
    this.stop();
    const turn = (this.turn = {});
    const found = await get("/status");
    if (this.turn !== turn) return;
    if (!Array.isArray(found.value?.nodes)) {
      this.is("lost", found.error ?? "Another program answers at this port.");
      return this.at("again", AGAIN_MS, () => this.failed());
    }
    this.heard(found.value);
    this.is("polling");
    this.at("again", this.refused++ ? POLL_MS : 0, () => this.start());
  }

  is(how, why = "") {
    if (this.how === how) return;
    this.how = how;
    this.linked(how, why);
  }

  at(name, after, what) {
    this.clear(name);
    this.timers.set(name, setTimeout(what, after));
  }

  clear(name) {
    clearTimeout(this.timers.get(name));
    this.timers.delete(name);
  }
}

/** {value} of a path, or {error, status}: a sentence, and 0 where nobody answered. */
export async function get(path) {
  try {
    const response = await fetch(path, { signal: AbortSignal.timeout(30_000) });
    const value = await response.json();
    if (response.ok) return { value };
    return { error: String(value.error ?? "The daemon could not answer. Its log says why."), status: response.status };
  } catch {
    return { error: "The daemon does not answer. Start it with `pairproxy up`.", status: 0 };
  }
}
