// Says aloud, to those who listen to the page, what they would want to know: not each request.

import { counted, plain, ratio } from "./words.js";

const PAUSE_MS = 5_000; // between two announcements

export class Speaker {
  constructor(node) {
    this.node = node;
    this.queue = [];
    this.isResting = false;
  }

  compare(before, now) {
    if (!before || before.node !== now.node) return;
    const was = new Map(before.nodes.map((one) => [one.node, one]));
    for (const one of now.nodes) {
      const old = was.get(one.node);
      if (!old) this.say(`${plain(one.name)} is paired.`);
      else if (old.is_up !== one.is_up) this.say(`${plain(one.name)} is ${one.is_up ? "back" : "down"}.`);
    }
    if (before.current_run && !now.current_run) this.say(ended(now.last_run));
    else if (!before.current_run && now.current_run) this.say("A run began.");
  }

  say(text) {
    if (this.queue.at(-1) !== text) this.queue.push(text);
    this.queue.splice(0, this.queue.length - 3); // what is older is no news
    if (!this.isResting) this.next();
  }

  next() {
    const text = this.queue.shift();
    this.isResting = text !== undefined;
    if (text === undefined) return;
    this.node.textContent = text;
    setTimeout(() => this.next(), PAUSE_MS);
  }
}

function ended(run) {
  if (!run) return "The run ended.";
  const speedup = run.speedup === null ? "" : `, speedup ${ratio(run.speedup)}`;
  return `The run ended: ${counted(run.requests, "request")}${speedup}.`;
}
