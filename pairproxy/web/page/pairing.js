// Whom this node trusts and how it reaches them; what is done about it is done in a terminal.

import { code, facts, h, note, table } from "./dom.js";
import { duration, known, name, plain } from "./words.js";

const FOUND_BY = { mdns: "mDNS", static: "peers.static", inbound: "its own call", remembered: "last address", pairing: "pairing" };

export function pairingView({ status }) {
  const peers = status.nodes.filter((one) => !one.is_self);
  const strangers = Object.entries(status.unpaired).sort();
  return [
    facts([
      ["this node", name(status.name)],
      ["its fingerprint", h("span", { class: "id long" }, status.node)],
      ["peer port", status.peer_port === null ? "closed: it opens with the first pairing" : status.peer_port],
      ["discovery", status.discovery_problem ? plain(status.discovery_problem) : "works"],
    ]),
    peers.length
      ? table("Paired nodes", ["node", "state", "found by", "address", "last heard", "fingerprint"], peers.map(row))
      : note("hint", "Nobody is paired. Run ", code("pairproxy pair"), " here and, on the other machine, ", code("pairproxy join CODE"), " with the code it shows."),
    strangers.length
      ? table(`Seen, not paired: ${strangers.length}`, ["node", "where"], strangers.map(([id, where]) => ({ key: id, cells: [h("span", { class: "id" }, `${plain(id.slice(0, 4))}-${plain(id.slice(4))}`), name(where)] })))
      : null,
    h(
      "section",
      { key: "how", "aria-labelledby": "h-how" },
      h("h2", { id: "h-how" }, "In a terminal"),
      h(
        "ul",
        {},
        h("li", {}, code("pairproxy pair"), " shows a code for another machine"),
        h("li", {}, code("pairproxy peers"), " lists who is paired and what each may have"),
        h("li", {}, code("pairproxy forget NODE"), " ends it at once"),
      ),
      h("p", { class: "muted" }, "The owner of a paired machine could read what is sent there: pair with people you trust. This page only shows; it changes nothing."),
    ),
  ];
}

function row(one) {
  const state = one.is_up ? "up" : `down${one.problem ? `: ${plain(one.problem)}` : ""}`;
  return {
    key: one.node,
    cells: [
      name(one.name),
      h("span", { class: one.is_up ? "good" : "bad" }, state),
      FOUND_BY[one.found_by] ?? known(one.found_by),
      one.address ? name(one.address) : "none",
      one.age_s === null ? "never" : `${duration(one.age_s)} ago`,
      h("span", { class: "id" }, plain(one.node)),
    ],
  };
}

