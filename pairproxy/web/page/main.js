// Puts together: where we are (the address after #), what the daemon tells, and the view of it.

import { h, note, render } from "./dom.js";
import { Live } from "./live.js";
import { modelsView } from "./models.js";
import { overview } from "./overview.js";
import { pairingView } from "./pairing.js";
import { requestView } from "./request.js";
import { runsView } from "./runs.js";
import { Speaker } from "./speaker.js";
import { Store } from "./store.js";
import { Theme } from "./theme.js";
import { duration, plain, prose } from "./words.js";

const VIEWS = {
  "": { title: "Overview", view: overview },
  runs: { title: "Runs", view: runsView },
  models: { title: "Models", view: modelsView },
  pairing: { title: "Pairing", view: pairingView },
  requests: { title: "Request", view: requestView, isHidden: true },
};
const place = (id) => document.getElementById(id);
const state = { status: null, argument: "", redraw: draw };
const store = (state.store = new Store(draw));
const speaker = new Speaker(place("said"));
let isDue = false;
let wasLost = false;

/** What stands after the #: a view, and what it is of. */
function where() {
  const [first = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  let argument = rest.join("/");
  try {
    argument = decodeURIComponent(argument);
  } catch {
    // Somebody wrote it by hand: taken as it stands.
  }
  return { id: first in VIEWS ? first : "", argument };
}

/** Draw once, before the next frame, however much changed. */
function draw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    const at = where();
    state.argument = at.argument;
    document.title = `${VIEWS[at.id].title} - pairproxy${state.status ? ` on ${plain(state.status.name)}` : ""}`;
    render(place("nav"), Object.keys(VIEWS).filter((id) => !VIEWS[id].isHidden).map((id) => link(id, at.id)));
    const heading = h("h1", { id: "heading", tabindex: "-1" }, VIEWS[at.id].title);
    try {
      render(place("main"), heading, state.status ? VIEWS[at.id].view(state) : note("hint", "Asking the daemon."));
    } catch (error) {
      render(place("main"), heading, note("hint", "This could not be drawn. Reload the page, and please report it."));
      throw error; // for the console
    }
  });
}

function link(id, current) {
  const isHere = id === current || (id === "runs" && current === "requests");
  return h("a", { key: id, href: `#/${id}`, "aria-current": isHere ? "page" : null }, VIEWS[id].title);
}

function heard(status) {
  const before = state.status;
  const isAnother = before && (before.node !== status.node || status.uptime_s < before.uptime_s);
  state.status = status;
  if (isAnother) store.outdate();
  else if (before?.current_run && !status.current_run) store.outdate((path) => path.startsWith("/advice"));
  if (before && !isAnother && lastRun(before) !== lastRun(status)) changed();
  if (before && before.version !== status.version) return location.reload(); // its page may be another, too
  // A node that changed its state, or its models, changes the matrix.
  if (before && shape(before) !== shape(status)) store.outdate((path) => path === "/models");
  render(place("self"), `on ${plain(status.name)}`);
  speaker.compare(before, status);
  draw();
}

const lastRun = ({ last_run: run }) => run && `${run.run} ${run.requests} ${run.makespan_s}`;

const shape = (status) =>
  JSON.stringify(status.nodes.map((one) => [one.node, one.is_up, one.engines.map((engine) => [engine.is_up, engine.replicas.map((r) => [r.model, r.identity, r.is_loaded])])]));

/** A run's report is another one. */
function changed() {
  store.outdate((path) => path.startsWith("/report") || path.startsWith("/runs"));
  draw();
}

function linked(how, why, age) {
  const words = { live: "live", polling: "every 2 s", lost: "no daemon", old: "no news" };
  const isOld = how === "lost" || how === "old";
  place("link").className = `link ${how}`;
  render(place("link"), words[how]);
  render(place("age"), isOld && state.status ? `This picture is ${duration(Math.floor(age / 1000))} old.${how === "old" ? " The daemon is asked again. If it stays so, restart it." : ""}` : null);
  render(place("lost"), how === "lost" ? [prose(why), " Until then this is what it last told; it is asked each second."] : null);
  if (how === "live" && wasLost) store.outdate(); // who knows what happened meanwhile
  wasLost = isOld || (wasLost && how !== "live");
}

addEventListener("hashchange", () => {
  draw();
  requestAnimationFrame(() => {
    place("heading")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  });
});
place("skip").onclick = (event) => {
  event.preventDefault(); // the address after # names the view
  place("main").focus();
};
new Theme(place("theme"), draw);
new Live(heard, changed, linked);
draw();
