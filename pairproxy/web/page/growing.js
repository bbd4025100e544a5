// The timeline of a run that goes on: what ended, as the report has it, and what runs and waits, as the status does.

import { arranged } from "./lanes.js";

const MOST_SEEN = 500; // bars that ended and are not in the report yet: it is made some seconds later
const EARLY_S = 0.1; // a slot is heard to be free a little after its next request was sent

/** What ran when the status was last told, until the report has it: else a slot that worked would look idle. */
const seen = new Map(); // request and attempt -> {one, sent, now}
let seenRun = "";

function remember(run, running, isReported) {
  if (seenRun !== run.run) seen.clear();
  seenRun = run.run;
  for (const one of running) {
    if (one.run !== run.run || one.node === null) continue;
    const key = `${one.request} ${one.attempt}`;
    seen.delete(key);
    seen.set(key, { one, sent: Math.max(0, run.age_s - one.age_s), now: run.age_s });
  }
  for (const key of seen.keys()) if (isReported.has(key)) seen.delete(key);
  for (const key of [...seen.keys()].slice(0, -MOST_SEEN)) seen.delete(key);
  return [...seen.values()].sort((one, other) => one.sent - other.sent);
}

/** A timeline like the report's; bars of what runs, or ran a moment ago, are "running". `report` is null, or the run's own. */
export function growing(status, report, names) {
  const run = status.current_run;
  const now = run.age_s;
  const ended = report?.timeline;
  const lanes = [...(ended?.lanes ?? [])];
  const bars = [...(ended?.bars ?? [])];
  const lasts = lanes.map(() => ({ at: 0, waves: 0 }));
  for (const bar of bars) {
    const last = lasts[bar.lane];
    last.at = Math.max(last.at, bar.ended_s);
    last.waves = Math.max(last.waves, bar.wave);
  }
  const isReported = new Set(bars.map((bar) => `${bar.request} ${bar.attempt}`));
  for (const { one, sent, now: last } of remember(run, status.running, isReported)) {
    let lane = lanes.findIndex((is, index) => is.node === one.node && is.engine === one.engine && lasts[index].at <= sent + EARLY_S);
    if (lane < 0) {
      const slots = lanes.filter((is) => is.node === one.node && is.engine === one.engine).length;
      lane = lanes.push({ node: one.node, engine: one.engine, slot: slots + 1 }) - 1;
      lasts.push({ at: 0, waves: 0 });
    }
    lasts[lane].at = last;
    lasts[lane].waves += 1;
    bars.push(barOf(one, lane, lasts[lane].waves, sent, last));
  }
  const waiting = status.waiting
    .filter((one) => one.run === run.run)
    .map((one) => ({ request: one.request, model: one.model, waiting_s: Math.max(0, now - one.age_s), ended_s: now, outcome: "waiting" }));
  const line = { makespan_s: now, lower_bound_s: null, lanes, bars, unplaced: [...(ended?.unplaced ?? []), ...waiting], isGrowing: true };
  const models = new Set([...status.running, ...waiting].map((one) => one.model));
  const able = status.nodes.filter((node) => node.engines.some((engine) => engine.is_up && engine.replicas.some((one) => models.has(one.model))));
  line.waves = Math.max(0, ...lasts.map((last) => last.waves));
  return arranged(line, names, status.node, able.filter((node) => node.is_up).map((node) => node.node));
}

function barOf(one, lane, wave, sent, now) {
  const came = Math.max(0, sent - one.queue_s);
  const first = one.ttft_s === null ? null : Math.min(Math.max(came + one.ttft_s, sent), now);
  const times = { waiting_s: came, dispatched_s: sent, first_byte_s: first, ended_s: now };
  return { request: one.request, attempt: one.attempt, lane, wave, model: one.model, ...times, end: "running", load_s: 0 };
}
