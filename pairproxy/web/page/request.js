// One request: where it could have gone, what each place would have cost in seconds, and what came of it.

import { facts, h, note, table } from "./dom.js";
import { called, name, nodeName, plain, prose, seconds, short, when } from "./words.js";

const TERMS = ["wait", "load", "prefill", "decode", "finish", "margin", "affinity", "delay", "chain"];
const ALWAYS = ["wait", "prefill", "decode", "finish"]; // the others where one of the candidates has them
const PIECES = ["wait", "load", "prefill", "decode"]; // these add up to finish
const MEANINGS = {
  finish: "the seconds before it added up",
  margin: "against what may go wrong, on top",
  affinity: "against reading again what another place holds, on top",
  delay: "by which what runs there would end later, on top",
  chain: "by which the last chain would end later; the least goes before all else",
  cached: "tokens of the prompt that the place holds",
  ahead: "requests that run or are planned there, of its slots",
};

export function requestView(state) {
  const path = `/requests/${encodeURIComponent(state.argument || "last")}`;
  const told = state.store.ask(path);
  const canChange = told.status === 404 || (told.value && isOpen(told.value));
  if (canChange && told.seen !== state.status) {
    told.isStale = told.seen !== undefined; // with each status it is looked at again
    told.seen = state.status;
  }
  if (told.error) return [note("bad", prose(told.error)), back()];
  return told.value ? story(told) : note("hint", "Asking for the request.");
}

const back = () => h("p", {}, h("a", { href: "#/runs" }, "To the runs"));

const isOpen = (found) => found.outcome === "running" || found.outcome === "waiting";

function story(told) {
  const found = told.value;
  return h(
    "article",
    { key: found.request },
    h("h2", {}, h("span", { class: "id" }, short(found.request)), " ", h("span", { class: found.outcome === "done" || isOpen(found) ? "good" : "bad" }, found.outcome)),
    found.error ? note("bad", prose(found.error)) : null,
    facts([
      ["id", h("span", { class: "id long" }, plain(found.request))],
      ["model", name(found.model)],
      ["asked by", `${plain(found.dialect)} ${plain(found.path)}`],
      ["waited", seconds(found.queue_s)],
      [isOpen(found) ? "so far" : "ended after", seconds(found.ended_s)],
      ["at", isOpen(found) ? null : when(told.at - found.age_s)],
      ["tokens in", found.prompt_tokens === null ? null : `${found.prompt_tokens}${found.cached_tokens === null ? "" : ` (${found.cached_tokens} cached)`}`],
      ["tokens out", found.output_tokens],
      ["run", found.run ? h("a", { href: `#/runs/${encodeURIComponent(found.run)}` }, name(called(found.run))) : null],
      ["chain", found.chain ? name(called(found.chain)) : null],
      ["sent by", found.origin ? name(nodeName(found.names, found.origin)) : null],
      ["went on elsewhere", found.continued ? `${found.continued} times` : null],
    ]),
    found.attempts.length ? null : note("hint", `It was sent nowhere: it spent ${seconds(found.queue_s)} in the queue.`),
    found.attempts.map((attempt) => attemptOf(found, attempt)),
    back(),
  );
}

function attemptOf(found, attempt) {
  const id = `h-attempt-${attempt.number}`;
  const where = [name(nodeName(found.names, attempt.node)), ` (${plain(attempt.engine)})`];
  return h(
    "section",
    { key: id, "aria-labelledby": id },
    h("h3", { id }, `Attempt ${attempt.number}: to `, where, ` after ${seconds(attempt.dispatched_s)}`),
    h("p", {}, "Because: ", h("strong", {}, plain(attempt.reason)), attempt.policy ? ` (policy ${plain(attempt.policy)})` : ""),
    attempt.candidates.length ? candidates(found, attempt) : h("p", { class: "muted" }, "Its candidates are no longer in memory: only the last requests have theirs."),
    h("ul", { class: "notes" }, came("first byte", attempt, "first_byte_s"), came("end", attempt, "ended_s"), h("li", {}, `it ended: ${plain(attempt.end || "not yet")}`)),
  );
}

/** Predicted and real, from the dispatch on. */
function came(what, attempt, field) {
  const predicted = attempt[`predicted_${field === "ended_s" ? "end_s" : field}`];
  const told = predicted === null ? "not predicted" : `predicted ${seconds(predicted - attempt.dispatched_s)}`;
  const real = attempt[field] === null ? "has not come" : `came after ${seconds(attempt[field] - attempt.dispatched_s)}`;
  return h("li", { key: what }, `${what}: ${told}, ${real}`);
}

function candidates(found, attempt) {
  const all = attempt.candidates;
  const terms = TERMS.filter((term) => ALWAYS.includes(term) || all.some((one) => Math.abs(one[`${term}_s`]) >= 0.005));
  const most = Math.max(1e-9, ...all.map((one) => one.finish_s));
  const columns = ["node", "engine", ...terms.map((term) => ({ title: term, kind: "number" })), { title: "cached", kind: "number" }, { title: "ahead", kind: "number" }, "as a picture"];
  const rows = all.map((one) => {
    const isPick = one.node === attempt.node && one.engine === attempt.engine;
    return {
      key: `${one.node} ${one.engine}`,
      attributes: { class: isPick ? "shown" : null },
      cells: [[isPick ? "\u2192 " : "", name(nodeName(found.names, one.node)), isPick ? h("span", { class: "unseen" }, " (picked)") : ""], plain(one.engine), ...terms.map((term) => seconds(one[`${term}_s`])), one.cached_tokens, `${one.in_flight}/${one.slots}`, pieces(one, most)],
    };
  });
  const meanings = [...terms, "cached", "ahead"].filter((term) => term in MEANINGS).map((term) => h("div", { key: term }, h("dt", {}, term), h("dd", {}, MEANINGS[term])));
  return [table("Where it could go, each with its price in seconds", columns, rows), h("dl", { class: "meanings" }, meanings)];
}

const pieces = (one, most) =>
  h("div", { class: "pieces", "aria-hidden": "true" }, PIECES.map((term) => h("span", { key: term, class: term, "width%": (100 * one[`${term}_s`]) / most })));
