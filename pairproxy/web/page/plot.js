// The picture of a run, to be moved in with the pointer and the keys.

import { AXIS, Drawing, INKS, STRIP, make, same } from "./drawing.js";
import { colours } from "./theme.js";
import { nodeName, seconds, short } from "./words.js";

const MOST_ZOOM = 64; // a bar of a hundredth of a second can then be hit in a run of a minute

export class Plot extends Drawing {
  static of(node) {
    return (node.pagePlot ??= new Plot(node));
  }

  constructor(node) {
    super();
    this.zoom = 1;
    this.chosen = null;
    this.canvas = make("canvas", "plot-canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "timeline");
    this.inner = make("div", "plot-inner", this.canvas);
    this.scroller = make("div", "plot-scroll", this.inner);
    this.tip = make("p", "plot-tip");
    this.tip.setAttribute("aria-live", "polite");
    node.append(this.buttons(), this.scroller, this.tip);
    this.scroller.onscroll = () => this.soon();
    this.canvas.onpointermove = (event) => this.choose(this.barAt(event.offsetX, event.offsetY));
    this.canvas.onclick = (event) => this.open(this.barAt(event.offsetX, event.offsetY));
    this.canvas.onkeydown = (event) => this.key(event);
    new ResizeObserver(() => this.soon()).observe(this.scroller);
  }

  buttons() {
    const one = (text, name, factor) => {
      const button = make("button", "small");
      button.type = "button";
      button.textContent = text;
      button.setAttribute("aria-label", name);
      button.onclick = () => this.zoomTo(factor ? this.zoom * factor : 1);
      return button;
    };
    return make("div", "plot-buttons", one("+", "Zoom in", 2), one("\u2212", "Zoom out", 0.5), one("All", "Show all of it", 0));
  }

  /** Show a timeline, with the names of its nodes; the same one costs nothing but a look at the theme. */
  show(line, names, label) {
    this.names = names;
    if (this.canvas.getAttribute("aria-label") !== label) this.canvas.setAttribute("aria-label", label);
    const theme = `${document.documentElement.dataset.theme} ${matchMedia("(prefers-color-scheme: dark)").matches}`;
    if (this.line === line && this.theme === theme) return;
    if (this.theme !== theme) this.inks = colours(this.inner, INKS);
    this.theme = theme;
    if (this.line !== line) this.take(line);
    this.soon();
  }

  barAt(x, y) {
    const lane = Math.floor((y + this.top - AXIS - STRIP) / this.row);
    if (x < this.label || y < AXIS + STRIP || !this.lanes?.[lane]) return null;
    const at = (x + this.left - this.label) / this.perSecond;
    const near = 3 / this.perSecond; // a thin bar is hit, too
    return this.lanes[lane].find((bar) => at >= bar.dispatched_s - near && at <= bar.ended_s + near) ?? null;
  }

  choose(bar) {
    if (bar === this.chosen) return;
    this.chosen = bar;
    this.canvas.style.cursor = bar ? "pointer" : "";
    this.tip.textContent = bar ? this.told(bar) : "";
    this.soon();
  }

  told(bar) {
    const lane = this.line.lanes[bar.lane];
    const first = bar.first_byte_s === null ? "no byte" : `first byte ${seconds(bar.first_byte_s - bar.dispatched_s)} later`;
    return (
      `${short(bar.request)} on ${nodeName(this.names, lane.node)}, slot ${lane.slot}, wave ${bar.wave}: ` +
      `waited ${seconds(bar.dispatched_s - bar.waiting_s)}, sent at ${seconds(bar.dispatched_s)}, ${first}, ` +
      (bar.end === "running" ? "still running" : `ended at ${seconds(bar.ended_s)}: ${bar.end}`)
    );
  }

  open(bar) {
    if (bar) location.hash = `#/requests/${encodeURIComponent(bar.request)}`;
  }

  zoomTo(zoom) {
    const middle = (this.scroller.scrollLeft + this.scroller.clientWidth / 2) / this.zoom;
    this.zoom = Math.min(Math.max(zoom, 1), MOST_ZOOM);
    this.fit();
    this.scroller.scrollLeft = middle * this.zoom - this.scroller.clientWidth / 2;
    this.soon();
  }

  key(event) {
    const lane = this.chosen?.lane ?? 0;
    const bars = this.lanes?.[lane] ?? [];
    const index = this.chosen ? bars.indexOf(this.chosen) : -1;
    const moves = {
      ArrowRight: () => bars[Math.min(index + 1, bars.length - 1)],
      ArrowLeft: () => bars[Math.max(index - 1, 0)],
      ArrowDown: () => this.nearest(this.chosen ? lane + 1 : 0),
      ArrowUp: () => this.nearest(lane - 1),
      Home: () => bars[0],
      End: () => bars.at(-1),
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) {
      const bar = moves[event.key]();
      if (bar) this.choose(bar), this.reveal(bar);
    } else if (event.key === "Enter") this.open(this.chosen);
    else if (event.key === "+" || event.key === "=") this.zoomTo(this.zoom * 2);
    else if (event.key === "-") this.zoomTo(this.zoom / 2);
    else return;
    event.preventDefault();
  }

  nearest(lane) {
    const at = this.chosen?.dispatched_s ?? 0;
    const away = (bar) => Math.abs(bar.dispatched_s - at);
    return this.lanes[lane]?.reduce((best, bar) => (best && away(best) <= away(bar) ? best : bar), null);
  }

  reveal(bar) {
    const [left, right] = [this.x(bar.dispatched_s), this.x(bar.ended_s)];
    const { clientWidth: width, clientHeight: height } = this.scroller;
    if (left < this.label || right > width) this.scroller.scrollLeft += left - this.label - 20;
    const top = this.y(bar.lane);
    if (top < AXIS + STRIP || top + this.row > height) this.scroller.scrollTop += top - AXIS - STRIP - this.row;
  }
}
