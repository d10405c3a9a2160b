"use strict";
// Charts over time: panels above each other with one clock, lanes for events, and a line to read values off.
const SVG = "http://www.w3.org/2000/svg";
const DAY = 86400;
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function drawn(name, attributes, parent, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

function made(name, className, parent, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

// Units that keep the numbers of an axis short.
function unitFor(resource, top) {
  if (resource === "cpu") return top < 1 ? { size: 0.001, name: "millicores" } : { size: 1, name: "cores" };
  if (resource === "memory") {
    for (const [power, name] of [[40, "TiB"], [30, "GiB"], [20, "MiB"]]) if (top >= (power === 40 ? 4 : 1) * 2 ** power) return { size: 2 ** power, name };
    return { size: 1024, name: "KiB" };
  }
  return { size: 1, name: resource };
}

function figure(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const places = Math.max(0, Math.min(4, 2 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString("en-GB", { minimumFractionDigits: 0, maximumFractionDigits: places });
}

function dayOf(time) {
  const date = new Date(time * 1000);
  return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
}

function hourOf(time) {
  return new Date(time * 1000).toISOString().slice(11, 16);
}

function momentOf(time) {
  return `${WEEKDAYS[new Date(time * 1000).getUTCDay()]} ${dayOf(time)}, ${hourOf(time)} UTC`;
}

function valueTicks(top, most) {
  const rough = top / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const ticks = [];
  for (let number = 0; number * step <= top * 1.0001; number++) ticks.push(number * step);
  return ticks;
}

function timeTicks(begin, end, most) {
  const steps = [300, 900, 1800, 3600, 7200, 10800, 21600, 43200, DAY, 2 * DAY, 4 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 84 * DAY];
  const step = steps.find((each) => (end - begin) / each <= most) || 364 * DAY;
  const ticks = [];
  // Steps of days count from the first midnight, so that weeks begin where the chart does.
  const origin = step > DAY ? Math.ceil(begin / DAY) * DAY : Math.ceil(begin / step) * step;
  for (let time = origin; time <= end; time += step) ticks.push({ time, text: time % DAY === 0 ? dayOf(time) : hourOf(time) });
  return ticks;
}

class Plot {
  // spec: label, times, end, scoredFrom, panels [{title, resource, height, layers}], lanes [{name, colour, marks}],
  // laneEnd where no marks are known from some time on.
  // A layer: kind (area, line, step, band), label, values (or low and high), colour, dash, width, selectable.
  // With a peer the two have one legend, which stands elsewhere.
  constructor(host, legend = null, peer = null) {
    this.host = host;
    this.peers = peer ? peer.peers : [];
    this.peers.push(this);
    this.hidden = peer ? peer.hidden : new Set();
    this.at = null;
    this.legend = legend || made("div", "legend", host);
    this.frame = made("div", "frame", host);
    this.frame.tabIndex = 0;
    this.frame.setAttribute("role", "img");
    this.tip = made("div", "tip", host);
    this.tip.hidden = true;
    this.live = made("p", "unseen", host);
    this.live.setAttribute("aria-live", "polite");
    this.frame.addEventListener("pointermove", (event) => this.point(event));
    this.frame.addEventListener("pointerleave", () => this.leave());
    this.frame.addEventListener("blur", () => this.leave());
    this.frame.addEventListener("keydown", (event) => this.step(event));
    new ResizeObserver(() => {
      if (this.spec && Math.abs(this.frame.clientWidth - this.width) > 1) this.draw();
    }).observe(this.frame);
  }

  show(spec) {
    this.spec = spec;
    this.frame.setAttribute("aria-label", `${spec.label}. Arrow keys read the values.`);
    this.drawLegend();
    this.draw();
  }

  drawLegend() {
    this.legend.replaceChildren();
    const seen = new Set();
    this.keyed = new Set();
    const specs = this.peers.map((each) => each.spec).filter(Boolean);
    for (const layer of specs.flatMap((spec) => spec.panels).flatMap((panel) => panel.layers)) {
      if (seen.has(layer.label) || layer.unkeyed) continue;
      seen.add(layer.label);
      const item = made(layer.selectable ? "button" : "span", "key", this.legend);
      const sample = drawn("svg", { width: 22, height: 12, "aria-hidden": "true" }, item);
      if (layer.kind === "area" || layer.kind === "band") drawn("rect", { x: 0, y: 1, width: 22, height: 10, style: `fill:${layer.colour}`, class: layer.kind }, sample);
      else drawn("path", { d: "M0 6H22", class: "stroke", style: strokeOf(layer) }, sample);
      made("span", "", item, layer.label);
      if (!layer.selectable) continue;
      this.keyed.add(layer.label);
      item.type = "button";
      item.title = "Show only this line, or all again; with Ctrl or Shift, show or hide it";
      item.setAttribute("aria-pressed", String(!this.hidden.has(layer.label)));
      item.dataset.label = layer.label;
      item.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) this.toggle(layer.label);
        else this.isolate(layer.label, [...seen]);
        for (const key of this.legend.querySelectorAll("button.key")) {
          key.setAttribute("aria-pressed", String(!this.hidden.has(key.dataset.label)));
        }
        this.peers.forEach((each) => each.draw());
        this.legend.dispatchEvent(new Event("chosen"));
      });
    }
  }

  toggle(label) {
    if (!this.hidden.delete(label)) this.hidden.add(label);
  }

  // Only this line, or all lines if it is the only one already.
  isolate(label, labels) {
    const lines = labels.filter((each) => this.keyed.has(each));
    const isAlone = lines.every((each) => this.hidden.has(each) === (each !== label));
    for (const each of lines) this.hidden.delete(each);
    if (!isAlone) for (const each of lines) if (each !== label) this.hidden.add(each);
  }

  draw() {
    const { spec } = this;
    this.width = Math.max(this.frame.clientWidth, 280);
    const lanes = spec.lanes || [];
    const left = lanes.length ? 96 : 52;
    const right = 14;
    this.scale = { left, right: this.width - right, begin: spec.times[0], end: spec.end };
    const heights = spec.panels.map((panel) => panel.height + 40);
    const height = heights.reduce((sum, each) => sum + each, 0) + lanes.length * 18 + (lanes.length ? 10 : 0) + 26;
    const svg = drawn("svg", { viewBox: `0 0 ${this.width} ${height}`, width: this.width, height, "aria-hidden": "true" });
    this.x = (time) => left + ((time - this.scale.begin) / (this.scale.end - this.scale.begin)) * (this.scale.right - left);
    const bottom = height - 24;
    this.drawClock(svg, bottom);
    let y = 0;
    for (const panel of spec.panels) {
      this.drawPanel(svg, panel, y + 26);
      y += panel.height + 40;
    }
    const warm = this.x(Math.min(spec.scoredFrom, spec.end));
    if (warm - left > 130) drawn("text", { x: warm - 6, y: 37, class: "tick halo", "text-anchor": "end" }, svg, "warm-up, not scored");
    lanes.forEach((lane, number) => this.drawLane(svg, lane, y + 10 + number * 18));
    if (spec.laneEnd) drawn("text", { x: this.x(spec.laneEnd) + 10, y: y + 22, class: "tick" }, svg, "later ones are not drawn");
    this.cursor = drawn("path", { class: "cursor", d: "" }, svg);
    this.bottom = bottom;
    this.frame.replaceChildren(svg);
  }

  drawClock(svg, bottom) {
    const { left, right, begin, end } = this.scale;
    const warm = this.spec.scoredFrom;
    if (warm > begin) {
      const wide = this.x(Math.min(warm, end)) - left;
      drawn("rect", { x: left, y: 22, width: wide, height: bottom - 22, class: "warm" }, svg);
    }
    for (const { time, text } of timeTicks(begin, end, (right - left) / 72)) {
      const x = this.x(time).toFixed(1);
      drawn("path", { d: `M${x} 22V${bottom}`, class: "grid" }, svg);
      const anchor = x > right - 16 ? "end" : "middle";
      drawn("text", { x: anchor === "end" ? right : x, y: bottom + 16, class: "tick", "text-anchor": anchor }, svg, text);
    }
  }

  drawPanel(svg, panel, top) {
    const shown = panel.layers.filter((layer) => !this.hidden.has(layer.label));
    const topOf = (layers) => layers.flatMap((layer) => layer.high || layer.values).reduce((most, value) => value > most ? value : most, 0);
    const most = topOf(shown.filter((layer) => layer.kind !== "band")) || 1;
    // A range may be far above all else while little is known: then it leaves the panel.
    const ceiling = Math.max(most * 1.06, Math.min(topOf(shown), most * 1.4));
    const unit = unitFor(panel.resource, most);
    const bottom = top + panel.height;
    const y = (value) => bottom - (Math.min(value, ceiling) / ceiling) * panel.height;
    panel.unit = unit;
    drawn("text", { x: this.scale.left, y: top - 9, class: "title" }, svg, `${panel.title}, ${unit.name}`);
    for (const tick of valueTicks(ceiling / unit.size, Math.max(3, panel.height / 42))) {
      const at = y(tick * unit.size).toFixed(1);
      drawn("path", { d: `M${this.scale.left} ${at}H${this.scale.right}`, class: tick === 0 ? "base" : "grid" }, svg);
      drawn("text", { x: this.scale.left - 7, y: Number(at) + 4, class: "tick", "text-anchor": "end" }, svg, figure(tick));
    }
    for (const layer of shown) this.drawLayer(svg, layer, y, bottom);
  }

  drawLayer(svg, layer, y, bottom) {
    if (layer.kind === "band") {
      const high = this.path(layer.high, y, true);
      for (let part = 0; part < high.length; part++) {
        const low = this.path(layer.low, y, true)[part];
        if (low) drawn("path", { d: `M${high[part].join("L")}L${[...low].reverse().join("L")}Z`, class: "band", style: `fill:${layer.colour}` }, svg);
      }
      return;
    }
    for (const points of this.path(layer.values, y, layer.kind === "step")) {
      if (layer.kind === "area") {
        const first = points[0].split(" ")[0];
        const last = points[points.length - 1].split(" ")[0];
        drawn("path", { d: `M${first} ${bottom}L${points.join("L")}L${last} ${bottom}Z`, class: "area", style: `fill:${layer.colour}` }, svg);
      } else drawn("path", { d: `M${points.join("L")}`, class: "stroke", style: strokeOf(layer) }, svg);
    }
  }

  // Stretches of known values. A value holds until the next time; steps show that, lines go on to the end.
  path(values, y, stepped) {
    const { times, end } = this.spec;
    const parts = [];
    let points = null;
    for (let at = 0; at < times.length; at++) {
      if (!Number.isFinite(values[at])) { points = null; continue; }
      if (!points) parts.push(points = []);
      const height = y(values[at]).toFixed(1);
      points.push(`${this.x(times[at]).toFixed(1)} ${height}`);
      const next = at + 1 < times.length ? times[at + 1] : end;
      if (stepped || at + 1 === times.length) points.push(`${this.x(next).toFixed(1)} ${height}`);
    }
    return parts;
  }

  drawLane(svg, lane, y) {
    drawn("text", { x: this.scale.left - 7, y: y + 12, class: "tick", "text-anchor": "end" }, svg, `${lane.name} ${figure(lane.marks.length)}`);
    drawn("path", { d: `M${this.scale.left} ${y + 8}H${this.scale.right}`, class: "grid" }, svg);
    const d = lane.marks.map((mark) => `M${this.x(mark.time).toFixed(1)} ${y + 2}v12`).join("");
    if (d) drawn("path", { d, class: "mark", style: `stroke:${lane.colour}` }, svg);
  }

  point(event) {
    const box = this.frame.getBoundingClientRect();
    const { left, right, begin, end } = this.scale;
    const x = ((event.clientX - box.left) / box.width) * this.width;
    if (x < left - 8 || x > right + 8) { this.leave(); return; }
    const time = begin + ((x - left) / (right - left)) * (end - begin);
    const { times } = this.spec;
    let at = 0;
    while (at + 1 < times.length && times[at + 1] <= time) at++;
    this.read(at, false);
  }

  step(event) {
    const last = this.spec.times.length - 1;
    const at = this.at === null ? -1 : this.at;
    const moves = { ArrowRight: at + 1, ArrowLeft: at - 1, PageDown: at + 24, PageUp: at - 24, Home: 0, End: last };
    if (event.key === "Escape") { this.leave(); return; }
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.read(Math.max(0, Math.min(last, moves[event.key])), true);
  }

  leave() {
    this.at = null;
    this.tip.hidden = true;
    if (this.cursor) this.cursor.setAttribute("d", "");
  }

  read(at, aloud) {
    this.at = at;
    const { times, end, panels, lanes } = this.spec;
    const until = at + 1 < times.length ? times[at + 1] : end;
    const x = this.x(times[at]);
    this.cursor.setAttribute("d", `M${x.toFixed(1)} 22V${this.bottom}`);
    this.tip.replaceChildren();
    made("strong", "", this.tip, momentOf(times[at]));
    const spoken = [momentOf(times[at])];
    for (const panel of panels) {
      const rows = panel.layers.filter((layer) => !this.hidden.has(layer.label) && !layer.silent);
      const table = made("table", "", this.tip);
      made("caption", "", table, `${panel.title}, ${panel.unit.name}`);
      for (const layer of rows) {
        const row = made("tr", "", table);
        const key = made("td", "", row);
        made("i", "", key).style.background = layer.colour;
        key.append(layer.label);
        const value = layer.kind === "band"
          ? `${figure(layer.low[at] / panel.unit.size)} to ${figure(layer.high[at] / panel.unit.size)}`
          : figure(layer.values[at] / panel.unit.size);
        made("td", "", row, value);
        spoken.push(`${panel.title} ${layer.label} ${value} ${panel.unit.name}`);
      }
    }
    for (const lane of lanes || []) {
      const here = lane.marks.filter((mark) => mark.time >= times[at] && mark.time < until);
      here.slice(0, 2).forEach((mark) => {
        const text = mark.text ? `${lane.name}: ${mark.text}` : mark.why ? `${lane.name} (${mark.why})` : lane.name;
        made("p", "", this.tip, text);
        spoken.push(text);
      });
      if (here.length > 2) made("p", "", this.tip, `${lane.name}: ${here.length - 2} more`);
    }
    this.tip.hidden = false;
    const wide = this.host.clientWidth;
    const scaled = (x / this.width) * this.frame.clientWidth;
    const room = this.tip.offsetWidth + 16;
    this.tip.style.left = `${Math.max(0, scaled + room > wide ? scaled - room : scaled + 16)}px`;
    this.tip.style.top = `${this.frame.offsetTop + 26}px`;
    if (aloud) this.live.textContent = spoken.join("; ");
  }
}

function strokeOf(layer) {
  return `stroke:${layer.colour};stroke-width:${layer.width || 1.6}` + (layer.dash ? `;stroke-dasharray:${layer.dash}` : "");
}
