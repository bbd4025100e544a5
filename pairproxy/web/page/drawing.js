// The picture of a run on a canvas that is as large as what is seen of it: only visible bars are drawn, so that
// thousands cost no more than a few.

import { nodeName, plain } from "./words.js";

export const AXIS = 20; // pixels: the scale
export const STRIP = 26; // how many waited
export const INKS = ["back", "text", "muted", "line", "waiting", "load", "prefill", "decode", "failed", "bound"];

const KINDS = { waiting: false, load: false, prefill: true, decode: false, failed: true }; // whether in stripes

/** What is drawn; plot.js says of what, and where one is. */
export class Drawing {
  tiles = {};

  take(line) {
    this.line = line;
    const chosen = this.chosen && line.bars.find((bar) => same(bar, this.chosen));
    this.chosen = chosen ?? null;
    this.row = line.lanes.length <= 12 ? 22 : line.lanes.length <= 40 ? 15 : 10;
    this.end = Math.max(line.makespan_s, line.lower_bound_s ?? 0, 1e-6) * 1.04; // room for the word at the end
    this.lanes = line.lanes.map(() => []);
    for (const bar of line.bars) this.lanes[bar.lane].push(bar);
    this.waits = this.lanes.map((bars) => joined(bars.map((bar) => [bar.waiting_s, bar.dispatched_s])));
    this.steps = waitingSteps(line);
    this.most = Math.max(0, ...this.steps.map((step) => step[1]));
  }

  soon() {
    if (this.isDue || !this.line) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.draw();
    });
  }

  /** Fit the canvas to what is seen; returns its size in pixels of the page. */
  fit() {
    const width = this.scroller.clientWidth;
    this.label = Math.min(130, Math.floor(width * 0.25));
    const height = AXIS + STRIP + this.line.lanes.length * this.row + 2;
    const seen = Math.min(height, Math.max(180, Math.floor(innerHeight * 0.7)));
    this.inner.style.width = `${this.label + Math.floor((width - this.label) * this.zoom)}px`;
    this.inner.style.height = `${height}px`;
    this.scroller.style.maxHeight = `${seen + 16}px`; // with a scroll bar
    const scale = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(seen * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(seen * scale);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${seen}px`;
    }
    this.perSecond = ((width - this.label) * this.zoom) / this.end;
    this.left = this.scroller.scrollLeft; // read once: the document is asked to be laid out for it
    this.top = this.scroller.scrollTop;
    return [width, seen, scale];
  }

  x(at) {
    return this.label + at * this.perSecond - this.left;
  }

  y(lane) {
    return AXIS + STRIP + lane * this.row - this.top;
  }

  draw() {
    const [width, height, scale] = this.fit();
    if (width <= 0) return;
    const pen = (this.pen = this.canvas.getContext("2d"));
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.fillStyle = this.inks.back;
    pen.fillRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this.drawGrid(width, height);
    this.drawBars(width, height);
    this.drawLine(this.line.makespan_s, this.inks.text, [], height);
    if (this.line.lower_bound_s !== null) this.drawLine(this.line.lower_bound_s, this.inks.bound, [5, 4], height);
    this.drawTop(width);
    this.drawLabels(height);
  }

  drawGrid(width, height) {
    this.pen.fillStyle = this.inks.line;
    const step = niceStep(80 / this.perSecond);
    for (let at = 0; at <= this.end; at += step) this.pen.fillRect(Math.round(this.x(at)), AXIS, 1, height);
    this.line.lanes.forEach((lane, index) => {
      if (index === 0 || this.line.lanes[index - 1].node !== lane.node) this.pen.fillRect(0, this.y(index) - 1, width, 1);
    });
  }

  /** Kind by kind, so that the colour changes five times and not with every bar. */
  drawBars(width, height) {
    const rects = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, []]));
    const numbers = [];
    const thick = this.row - 5;
    const piece = (kind, from, to, y, high) => {
      const [left, right] = [Math.max(this.x(from), this.label), Math.min(this.x(to), width)];
      if (right > left) rects[kind].push([left, y, Math.max(right - left - 0.5, 0.7), high]);
    };
    this.lanes.forEach((bars, lane) => {
      const y = this.y(lane);
      if (y + this.row < AXIS || y > height) return;
      for (const [from, to] of this.waits[lane]) piece("waiting", from, to, y + thick + 2, 2);
      for (const bar of bars) {
        const sent = bar.dispatched_s + (bar.load_s ?? 0);
        const first = bar.first_byte_s ?? (bar.end === "running" ? bar.ended_s : sent);
        if (bar.end !== "done" && bar.end !== "running") piece("failed", bar.dispatched_s, bar.ended_s, y + 1, thick);
        else {
          const read = Math.min(sent, first);
          piece("load", bar.dispatched_s, read, y + 1 + thick * 0.5, thick * 0.5);
          piece("prefill", read, first, y + 1 + thick * 0.25, thick * 0.75);
          piece("decode", first, bar.ended_s, y + 1, thick);
        }
        if (this.row > 12 && bar.end === "done" && (bar.ended_s - first) * this.perSecond > 18) numbers.push([bar.wave, this.x(first), y]);
      }
    });
    for (const kind in rects) {
      this.pen.fillStyle = KINDS[kind] ? this.hatched(kind) : this.inks[kind];
      for (const [left, y, wide, high] of rects[kind]) this.pen.fillRect(left, y, wide, high);
    }
    this.pen.textAlign = "left";
    this.pen.fillStyle = this.inks.back;
    for (const [wave, x, y] of numbers) if (x >= this.label && x < width) this.pen.fillText(wave, x + 3, y + 1.5 + thick / 2);
    if (this.chosen) this.drawChosen(thick);
  }

  drawChosen(thick) {
    const { dispatched_s: from, ended_s: to, lane } = this.chosen;
    this.pen.strokeStyle = this.inks.text;
    this.pen.lineWidth = 2;
    this.pen.strokeRect(this.x(from) - 1, this.y(lane), Math.max((to - from) * this.perSecond + 2, 4), thick + 2);
  }

  /** Stripes, so that a kind is told apart without its colour. */
  hatched(kind) {
    const key = `${kind} ${this.inks[kind]}`;
    return (this.tiles[key] ??= this.pen.createPattern(this.tile(kind), "repeat"));
  }

  tile(kind) {
    const tile = make("canvas", "");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.fillStyle = pen.strokeStyle = this.inks[kind];
    pen.globalAlpha = 0.45;
    pen.fillRect(0, 0, 6, 6);
    pen.globalAlpha = 1;
    pen.lineWidth = 2;
    pen.beginPath();
    for (const shift of [-6, 0, 6]) {
      pen.moveTo(shift, 6);
      pen.lineTo(shift + 6, 0);
      if (kind === "failed") pen.moveTo(shift, 0), pen.lineTo(shift + 6, 6);
    }
    pen.stroke();
    return tile;
  }

  drawLine(at, ink, dashes, height) {
    const x = Math.round(this.x(at)) + 0.5;
    if (x < this.label) return;
    this.pen.beginPath();
    this.pen.moveTo(x, AXIS);
    this.pen.lineTo(x, height);
    this.pen.strokeStyle = this.inks.back; // a rim, so that it is seen on the bars
    this.pen.lineWidth = 5;
    this.pen.stroke();
    this.pen.strokeStyle = ink;
    this.pen.lineWidth = 2;
    this.pen.setLineDash(dashes);
    this.pen.stroke();
    this.pen.setLineDash([]);
  }

  /** The scale and how many waited stay where they are while the lanes scroll. */
  drawTop(width) {
    const pen = this.pen;
    pen.fillStyle = this.inks.back;
    pen.fillRect(0, 0, width, AXIS);
    pen.fillStyle = this.inks.muted;
    pen.textAlign = "left";
    const step = niceStep(80 / this.perSecond);
    for (let at = 0; at <= this.end; at += step) {
      const [text, x] = [`${Number(at.toFixed(6))} s`, this.x(at) + 2];
      if (x > this.label && x + pen.measureText(text).width <= width) pen.fillText(text, x, AXIS / 2);
    }
    pen.fillStyle = this.inks.back;
    pen.fillRect(0, AXIS, width, STRIP - 2);
    if (!this.most) return;
    pen.fillStyle = this.inks.waiting;
    this.steps.forEach(([at, count], index) => {
      const [left, right] = [Math.max(this.x(at), this.label), this.x(this.steps[index + 1]?.[0] ?? at)];
      const high = (count / this.most) * (STRIP - 6);
      if (right > left) pen.fillRect(left, AXIS + STRIP - 3 - high, right - left, high);
    });
  }

  drawLabels(height) {
    const pen = this.pen;
    pen.fillStyle = this.inks.back;
    pen.fillRect(0, AXIS, this.label - 4, height);
    pen.save();
    pen.beginPath();
    pen.rect(0, AXIS + STRIP, this.label - 8, height);
    pen.clip();
    pen.fillStyle = this.inks.text;
    this.line.lanes.forEach((lane, index) => {
      const before = this.line.lanes[index - 1];
      const y = this.y(index) + this.row / 2 - 1;
      if (before?.node !== lane.node) pen.fillText(nodeName(this.names, lane.node).slice(0, 40) + (lane.slot ? "" : ": idle"), 4, y);
      else if (before.engine !== lane.engine) pen.fillText(plain(lane.engine).slice(0, 40), 10, y);
      else if (this.row > 12) pen.fillText(`slot ${lane.slot}`, 16, y);
    });
    pen.restore();
    pen.fillStyle = this.inks.muted;
    pen.fillText(this.most ? `waiting: ${this.most}` : "none waited", 4, AXIS + STRIP / 2 - 1);
  }
}

export const same = (one, other) => one.request === other.request && one.attempt === other.attempt;

export function make(tag, kind, ...kids) {
  const node = document.createElement(tag);
  node.className = kind;
  node.append(...kids);
  return node;
}

/** Spans of time that overlap as one, in order. */
function joined(spans) {
  const found = [];
  for (const [from, to] of spans.sort((one, other) => one[0] - other[0])) {
    const last = found.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else found.push([from, to]);
  }
  return found;
}

/** The moments at which the number of waiting requests changed: [seconds, how many from then on]. */
function waitingSteps(line) {
  const changes = [...line.bars.map((bar) => [bar.waiting_s, bar.dispatched_s]), ...line.unplaced.map((one) => [one.waiting_s, one.ended_s])]
    .filter(([from, to]) => to > from)
    .flatMap(([from, to]) => [[from, 1], [to, -1]])
    .sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  let count = 0;
  return changes.map(([at, by]) => [at, (count += by)]);
}

/** 1, 2 or 5 times a power of ten, at least `least`. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least);
}
