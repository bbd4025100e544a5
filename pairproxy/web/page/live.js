// The daemon's state as it changes: GET /events, and once that cannot be had, GET /status again and again. It is
// taken up anew when the daemon comes back, also another one at the same port. A hidden page asks for nothing.

const OLD_MS = 12_000; // a status comes each 5 s at least: two were missed
const ANSWER_MS = 10_000; // that an answer may take of a daemon that is silent
const AGAIN_MS = 1_000; // after a daemon that is not there
const POLL_MS = 2_000; // where there is a daemon but no place among its watchers

export class Live {
  /** heard(status); changed(): a run's report is another; linked(how, why, age): "live", "polling", "lost",
   *  "old" (no status came for OLD_MS, whatever the reason); age: of what is shown, in ms. */
  constructor(heard, changed, linked) {
    this.heard = heard;
    this.changed = changed;
    this.linked = linked;
    this.how = "";
    this.refused = 0; // streams in a row that told nothing
    this.timers = new Map();
    this.heardAt = Date.now(); // counts also while the machine sleeps
    setInterval(() => this.look(), 1_000);
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.start()));
    if (!document.hidden) this.start();
  }

  start() {
    this.stop();
    const source = (this.source = new EventSource("/events"));
    source.addEventListener("status", (event) => this.took(JSON.parse(event.data)));
    source.addEventListener("run", () => this.changed());
    source.onerror = () => this.failed();
    this.at("silent", OLD_MS, () => this.failed());
    this.look();
  }

  stop() {
    this.source?.close();
    this.source = this.turn = null;
    for (const name of [...this.timers.keys()]) this.clear(name);
  }

  took(status) {
    this.heard(status); // where that fails the picture stands still, and is called old
    this.heardAt = Date.now();
    this.refused = 0;
    this.at("silent", OLD_MS, () => this.failed());
    this.is("live");
  }

  /** What is shown grows old by itself. */
  look() {
    const age = Date.now() - this.heardAt;
    if (age >= OLD_MS && this.how !== "lost") this.is("old", "", age);
    else if (this.how === "lost") this.linked("lost", this.why, age);
  }

  /** The stream is broken: is there a daemon at all? */
  async failed() {
    this.stop();
    const turn = (this.turn = {});
    const found = await get("/status", ANSWER_MS);
    if (this.turn !== turn) return;
    if (found.isSilent) {
      this.how = "silent"; // whatever was said before: it is there, and tells nothing
      this.look();
      return this.at("again", AGAIN_MS, () => this.start());
    }
    if (!Array.isArray(found.value?.nodes)) {
      this.is("lost", found.error ?? "Another program answers at this port.");
      return this.at("again", AGAIN_MS, () => this.failed());
    }
    this.at("again", this.refused++ ? POLL_MS : 0, () => this.start());
    this.heard(found.value);
    this.heardAt = Date.now();
    this.is("polling");
  }

  is(how, why = "", age = Date.now() - this.heardAt) {
    if (this.how === how && how !== "old") return;
    this.how = how;
    this.why = why;
    this.linked(how, why, age);
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
export async function get(path, most = 30_000) {
  try {
    const response = await fetch(path, { signal: AbortSignal.timeout(most) });
    const value = await response.json();
    if (response.ok) return { value };
    return { error: String(value.error ?? "The daemon could not answer. Its log says why."), status: response.status };
  } catch (error) {
    if (error.name === "TimeoutError") return { error: "The daemon is silent. If it stays so, restart it.", status: 0, isSilent: true };
    return { error: "The daemon does not answer. Start it with `pairproxy up`.", status: 0 };
  }
}
