// The runs that are remembered, and one of them: what it reached, what it could have, and where the time went.

import { code, facts, h, note, table } from "./dom.js";
import { arranged } from "./lanes.js";
import { timeline } from "./timeline.js";
import { called, counted, name, nodeName, outcomes, percent, plain, prose, ratio, seconds, short, when } from "./words.js";

const LOSSES = {
  tail_idle_s: "idle with nothing to do",
  cold_load_s: "loading models",
  duplicated_prefill_s: "reading prompts twice",
  waiting_by_plan_s: "idle by plan while requests waited",
  transport_s: "on the way",
  rescue_waste_s: "attempts for nothing",
  prediction_error_s: "slower than the best pace, or the wrong place",
};
/** The last run; it may be some moments old while a large one grows. */
export const LAST_RUN = "/report?watched=true";
const number = (title) => ({ title, kind: "number" });

export function runsView(state) {
  const wanted = state.argument;
  const told = state.store.ask(wanted ? `/report?watched=true&run=${encodeURIComponent(wanted)}` : LAST_RUN);
  return [list(state, told.value?.run?.run), told.error ? note("bad", prose(told.error)) : null, told.value ? one(state, told.value) : told.error ? null : note("hint", "Asking for the run.")];
}

function list(state, shown) {
  const told = state.store.ask("/runs?limit=50");
  if (!told.value) return null; // this daemon keeps no history: there is the last run
  const last = new Map(); // the last run of each name; an earlier one is asked for by a request of it
  told.value.runs.forEach((run) => last.has(run.run) || last.set(run.run, run));
  const earlier = told.value.runs.find((run) => run.request && run.request === state.argument);
  const isShown = (run) => (earlier ? run === earlier : run.run === shown && last.get(run.run) === run);
  const asked = (run) => (last.get(run.run) === run || !run.request ? run.run : run.request);
  const rows = told.value.runs.map((run) => ({
    key: `${run.run} ${run.started_unix}`,
    attributes: { class: isShown(run) ? "shown" : null },
    cells: [
      h("a", { href: `#/runs/${encodeURIComponent(asked(run))}`, "aria-current": isShown(run) ? "true" : null }, name(run.name ?? short(run.run))),
      when(run.started_unix),
      run.requests,
      outcomes(run.outcomes),
      run.nodes,
      seconds(run.makespan_s),
      ratio(run.speedup),
      ratio(run.bound_provable),
      percent(run.efficiency),
    ],
  }));
  const columns = ["run", "began", number("requests"), "outcomes", number("nodes"), number("makespan"), number("speedup"), number("provable bound"), number("efficiency")];
  return [
    told.value.problem ? note("bad", "History: ", plain(told.value.problem)) : null,
    rows.length ? table("Runs, the latest first", columns, rows, { class: "scroll list" }) : null,
    told.value.has_more ? h("p", { class: "muted" }, "Older ones: ", code("pairproxy report --all")) : null,
  ];
}

function one(state, report) {
  const run = report.run;
  if (!run) return note("hint", "No request has ended yet. Point a tool at a port of this machine and come back.");
  return h(
    "article",
    { key: `run ${run.run}`, "aria-labelledby": "h-run" },
    h("h2", { id: "h-run" }, "Run ", name(called(run.run)), report.started_unix ? h("span", { class: "muted" }, ` began ${when(report.started_unix)}`) : null),
    verdict(report),
    facts([
      ["requests", `${run.requests} (${outcomes(run.outcomes)})`],
      ["makespan", seconds(run.makespan_s)],
      ["speedup", ratio(run.speedup)],
      ["against this machine alone", run.speedup_local === null ? null : ratio(run.speedup_local)],
      ["waves bound", ratio(run.bound_waves)],
      ["provable bound", ratio(run.bound_provable)],
      ["efficiency", percent(run.efficiency)],
      ["no schedule ends before", run.lower_bound_s === null ? null : seconds(run.lower_bound_s)],
      ["first byte (median, p90)", run.ttft_p50_s === null ? null : `${seconds(run.ttft_p50_s)}, ${seconds(run.ttft_p90_s)}`],
      ["waited (median, p90)", run.queue_p50_s === null ? null : `${seconds(run.queue_p50_s)}, ${seconds(run.queue_p90_s)}`],
      ["prompt tokens from a cache", run.cached_tokens === null ? null : `${run.cached_tokens} of ${run.prompt_tokens}`],
      ["chains", run.chains ? `${run.chains}, ${counted(run.chain_steps, "step")}, longest ${run.longest_chain}` : null],
    ]),
    timeline(state, lanesOf(report), report.names, run.run),
    losses(run),
    perNode(run, report.names),
    run.notes.length + report.findings.length ? h("ul", { class: "notes" }, [...run.notes, ...report.findings].map((text) => h("li", { key: text }, prose(text)))) : null,
    advised(state, run.run),
  );
}

/** The timeline of a report, also with nodes that could have served and did not. */
export const lanesOf = ({ timeline: line, names, node, run }) => arranged(line, names, node, Object.keys(run.per_node));

/** What limited this run and what would change it, in the words of the report. */
export function verdict(report) {
  const said = report.verdict ?? report.run.verdict;
  if (!said) return null;
  const parts = [["What limited it", said.limited_by], ["What would change it", said.change]];
  return h("dl", { class: "note verdict" }, parts.map(([term, text]) => h("div", { key: term }, h("dt", {}, term), h("dd", {}, prose(text)))));
}

function losses(run) {
  if (!run.losses) return null;
  const found = Object.entries(run.losses).filter(([cause, lost]) => cause in LOSSES && lost >= 0.01 * run.makespan_s);
  if (!found.length) return null;
  const most = Math.max(...found.map(([, lost]) => lost));
  const rows = found
    .sort((one, other) => other[1] - one[1])
    .map(([cause, lost]) => ({ key: cause, cells: [LOSSES[cause], seconds(lost), h("div", { class: "bar", "aria-hidden": "true" }, h("span", { "width%": (100 * lost) / most }))] }));
  return table("Where the time beyond the lower bound went", ["cause", number("lost"), "as a picture"], rows);
}

function perNode(run, names) {
  const rows = Object.entries(run.per_node).map(([id, tally]) => ({
    key: id,
    cells: [name(nodeName(names, id)), tally.requests, tally.prompt_tokens, tally.output_tokens, seconds(tally.busy_s)],
  }));
  return table("Who did what", ["node", number("requests"), number("tokens in"), number("tokens out"), number("busy")], rows);
}

function advised(state, run) {
  const told = state.store.ask(`/advice?run=${encodeURIComponent(run)}`).value;
  if (!told?.advice.length) return null;
  const rows = told.advice.map((one) => {
    const [lever, ...why] = one.sentence.split(": "); // its name in words stands before the first colon
    return { key: `${one.lever} ${one.sentence}`, cells: [plain(lever), one.helps ? "helps" : "does not help", prose(why.join(": ")), gained(one)] };
  });
  return [
    table("What would make it faster", ["lever", "verdict", "why", number("gain")], rows),
    told.missing.length ? h("p", { class: "muted" }, "Not measured: ", told.missing.map(plain).join("; ")) : null,
  ];
}

const gained = (one) => (one.gain_s !== null ? seconds(one.gain_s) : one.gain === null || one.gain === undefined ? "" : percent(one.gain));
