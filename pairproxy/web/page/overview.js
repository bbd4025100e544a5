// The cluster as it is now: nodes, the run, what runs and what waits.

import { code, facts, h, note, table } from "./dom.js";
import { growing } from "./growing.js";
import { LAST_RUN, lanesOf, verdict } from "./runs.js";
import { linkTo, timeline } from "./timeline.js";
import { called, counted, duration, name, nodeName, outcomes, percent, plain, prose, rate, ratio, seconds } from "./words.js";

const MOST_CELLS = 32; // slots of an engine that get a cell each; more are drawn as one bar
const MOST_ROWS = 50; // requests that are listed; the counts are of all

export function overview(state) {
  const { status } = state;
  const names = Object.fromEntries(status.nodes.map((one) => [one.node, one.name]));
  const fastest = Math.max(1, ...status.nodes.flatMap((one) => one.recent_tokens_per_s));
  return [
    ...advice(status),
    section("now", "Requests", now(status)),
    section("nodes", "Nodes", h("ul", { class: "nodes" }, status.nodes.map((one) => node(one, fastest)))),
    runOf(state, names),
    status.running.length + status.waiting.length
      ? section("listed", "What runs and waits", h("div", { class: "beside" }, running(status.running, names), waiting(status.waiting)))
      : null,
  ];
}

/** The run now and the last one are one element: when a run ends, its timeline keeps focus and zoom. */
const KEYS = { current: "run", last: "run" };

const section = (id, title, ...kids) => h("section", { key: KEYS[id] ?? id, "aria-labelledby": `h-${id}` }, h("h2", { id: `h-${id}` }, title), kids);

/** What somebody who sees this for the first time does next, and what is wrong. */
function advice(status) {
  const notes = [];
  const ports = status.nodes.find((one) => one.is_self)?.engines.filter((one) => one.port) ?? [];
  if (status.is_draining) notes.push(note("bad", "This daemon is stopping: it ends what runs and takes nothing new."));
  if (!status.nodes.some((one) => one.engines.some((engine) => engine.is_up && engine.replicas.length))) {
    notes.push(note("hint", "No engine with a model answers here. Start Ollama or LM Studio, or ", code("pairproxy up --engine embedded"), " brings a small one."));
  }
  if (status.nodes.length < 2) {
    notes.push(note("hint", "This node is alone, so there is nobody to share with. Run ", code("pairproxy pair"), " here and, on the other machine, ", code("pairproxy join CODE"), " with the code it shows."));
  }
  if (!status.last_run && !status.running.length && !status.waiting.length && ports.length) {
    const addresses = ports.map((one) => [" ", code(`http://localhost:${one.port}`), ` (${plain(one.kind)})`]);
    notes.push(note("hint", "No request came yet. Point a tool at", addresses, "."));
  }
  for (const one of status.ports ?? []) if (one.why) notes.push(note(one.state === "held" ? "bad" : "hint", prose(one.why)));
  if (status.discovery_problem) notes.push(note("bad", "Discovery: ", prose(status.discovery_problem)));
  if (status.history_problem) notes.push(note("bad", "History: ", prose(status.history_problem)));
  if (status.loop_lag_s > 1) notes.push(note("bad", `pairproxy was held up for ${seconds(status.loop_lag_s)} within the last minute; its log says by what.`));
  return notes;
}

function node(one, fastest) {
  const state = !one.is_up ? ["down", "down"] : one.is_self ? ["up", "this machine"] : ["up", one.withheld && one.engines.length ? "withheld" : "up"];
  return h(
    "li",
    { key: one.node, class: `card ${state[0]}` },
    h("h3", {}, name(one.name), h("span", { class: `state ${state[0]}` }, state[1])),
    one.problem && !one.is_up ? h("p", { class: "bad" }, prose(one.problem)) : null,
    one.withheld ? h("p", { class: "muted" }, one.is_self ? "Peers get no slot here: " : "It offers nothing: ", prose(one.withheld_why)) : null,
    one.engines.map((engine) => engineOf(engine, one.is_self || !one.withheld)),
    one.engines.length ? null : h("p", { class: "muted" }, one.is_up ? "no engine" : "its engines are not known now"),
    one.models_differ.length ? h("p", { class: "bad" }, "Other content under the same name: ", one.models_differ.map(plain).join(", "), ". ", h("a", { href: "#/models" }, "What that costs")) : null,
    h("p", { class: "speed" }, sparkline(one.recent_tokens_per_s, fastest), h("span", { class: "figure" }, rate(one.tokens_per_s))),
  );
}

function engineOf(engine, isOffered) {
  const models = counted(engine.replicas.length, "model");
  const busy = engine.is_up ? `${engine.in_flight} of ${counted(engine.slots, "slot")} in use` : "does not answer";
  const all = engine.slots + engine.foreign;
  const cells = Array.from({ length: all > MOST_CELLS ? 0 : all }, (_, index) =>
    h("span", { class: index < engine.in_flight ? "cell full" : index < engine.slots && isOffered ? "cell" : "cell foreign" }),
  );
  const bar = h("div", { class: "bar" }, h("span", { "width%": (100 * engine.in_flight) / Math.max(engine.slots, 1) }));
  return h(
    "div",
    { key: engine.engine, class: "engine" },
    h("p", {}, h("strong", {}, name(engine.kind)), engine.engine !== engine.kind ? [" ", name(engine.engine)] : "", engine.version && engine.version !== engine.kind ? ` ${plain(engine.version)}` : "", h("span", { class: "muted" }, ` ${models}`)),
    h("div", { class: "cells", "aria-hidden": "true" }, engine.is_up ? (all > MOST_CELLS ? bar : cells) : null),
    h("p", { class: "muted" }, busy, engine.foreign ? `, ${engine.foreign} withheld: something else may use that machine` : ""),
  );
}

/** A minute of output tokens per second; the number beside it says the last. */
function sparkline(values, most) {
  const points = values.map((value, index) => `${(60 - values.length + index + 1).toFixed(0)},${(19 - (18 * value) / most).toFixed(1)}`);
  return h("svg", { class: "spark", viewBox: "0 0 61 20", preserveAspectRatio: "none", "aria-hidden": "true" }, h("polyline", { points: points.join(" ") }));
}

function now(status) {
  const ended = Object.values(status.outcomes).reduce((sum, count) => sum + count, 0);
  return [
    facts([
      ["running", status.running.length],
      ["waiting", status.queue_length],
      ["ended", `${ended} (${outcomes(status.outcomes)})`],
      ["policy", status.policy],
      ["up for", duration(status.uptime_s)],
    ]),
    status.limit ? h("p", { class: "limit" }, prose(status.limit)) : null,
  ];
}

const number = (title) => ({ title, kind: "number" });

function running(all, names) {
  const rows = all.slice(0, MOST_ROWS).map((one) => ({
    key: `${one.request} ${one.attempt}`,
    cells: [
      linkTo(one.request),
      name(one.model),
      name(nodeName(names, one.node)),
      one.has_first_byte ? "writes" : "reads",
      duration(one.age_s),
      one.ttft_s === null && !one.has_first_byte ? "not yet" : seconds(one.ttft_s),
      seconds(one.queue_s),
      one.output_tokens,
      one.attempt > 1 ? `attempt ${one.attempt}` : one.origin ? ["of ", name(nodeName(names, one.origin))] : "",
    ],
  }));
  const columns = ["request", "model", "node", "state", number("age"), number("first byte"), number("waited"), number("tokens out"), "note"];
  return h("div", {}, table(`Running: ${all.length}`, columns, rows, { class: "scroll list" }), rest(all));
}

function waiting(all) {
  const rows = all.slice(0, MOST_ROWS).map((one) => ({ key: one.request, cells: [linkTo(one.request), name(one.model), duration(one.age_s)] }));
  return h("div", {}, table(`Waiting: ${all.length}, the first to go first`, ["request", "model", number("age")], rows, { class: "scroll list" }), rest(all));
}

const rest = (all) => (all.length > MOST_ROWS ? h("p", { class: "muted" }, `and ${all.length - MOST_ROWS} more`) : null);

/** The run that goes on, or the last one: its numbers and its picture. */
function runOf(state, names) {
  const run = state.status.current_run;
  const told = state.store.ask(LAST_RUN);
  const report = told.value;
  if (run) {
    const all = { ...report?.names, ...names };
    const own = report?.run?.run === run.run ? report : null;
    return section("current", ["The run now ", h("span", { class: "muted" }, name(called(run.run)))], progress(run), timeline(state, growing(state.status, own, all), all, run.run));
  }
  if (!report?.run) return told.error ? note("bad", prose(told.error)) : null;
  const last = report.run;
  return section(
    "last",
    ["The last run ", h("a", { href: `#/runs/${encodeURIComponent(last.run)}` }, name(called(last.run)))],
    facts([
      ["requests", `${last.requests} (${outcomes(last.outcomes)})`],
      ["makespan", seconds(last.makespan_s)],
      ["speedup", ratio(last.speedup)],
      ["waves bound", ratio(last.bound_waves)],
      ["provable bound", ratio(last.bound_provable)],
      ["efficiency", percent(last.efficiency)],
      ["first byte (median)", last.ttft_p50_s === null ? null : seconds(last.ttft_p50_s)],
    ]),
    verdict(report),
    timeline(state, lanesOf(report), report.names, last.run),
  );
}

function progress(run) {
  const done = Math.min(100, (100 * run.ended) / Math.max(run.requests, 1));
  return [
    h("div", { class: "bar", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": run.requests, "aria-valuenow": run.ended, "aria-label": "Requests of the run that ended" }, h("span", { "width%": done })),
    facts([
      ["ended", `${run.ended} of ${counted(run.requests, "request")}`],
      ["running", run.running],
      ["waiting", run.waiting],
      ["waves", `${run.waves_done.toFixed(1)} of ${run.waves} (${counted(run.slots, "slot")})`],
      ["speedup so far", ratio(run.speedup)],
      ["waves bound", ratio(run.bound_waves)],
      ["provable bound", ratio(run.bound_provable)],
      ["for", duration(run.age_s)],
    ]),
  ];
}
