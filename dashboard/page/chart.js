// A uPlot chart in its panel: title, legend of buttons, the values below the cursor, and marks across.
/* global uPlot */

import { color, pictureDensity, pictureWidth, saveButton } from "/picture.js";
import { clock, element, setText, short } from "/text.js";

export const glyphs = { fault: "▲", back: "●", generation: "◆", leader: "★", arbitrator: "■" };
const clockSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];
const countSteps = Array.from({ length: 16 }, (_, i) => [10 ** i, 2 * 10 ** i, 5 * 10 ** i]).flat();
const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

/** The hue and dash of line `index`: eight hues, each in four dashes. */
export function lineStyle(index) {
  const hues = ["blue", "orange", "green", "purple", "sky", "red", "black", "grey"];
  return { hue: hues[index % hues.length], dash: dashes[Math.floor(index / hues.length) % dashes.length] };
}

function key(series) {
  const line = series.fill
    ? `<rect width="18" height="10" rx="2" fill="var(--${series.hue})"/>`
    : `<line x1="1" x2="17" y1="5" y2="5" stroke="var(--${series.hue})" stroke-width="2.5" stroke-dasharray="${(series.dash ?? []).join(" ")}"/>`;
  const made = element("span", "key");
  made.innerHTML = `<svg viewBox="0 0 18 10" aria-hidden="true">${line}</svg>`;
  return made.firstChild;
}

export class Chart {
  /**
   * series: [{name, hue, dash, width, points, fill, gaps, axis, text, bound}], in the order of the data behind its x
   * column. A `bound` is one edge of the band around the nearest line before it, which has two of them.
   * options: {title, text (formats a value), range, log, right (formats the right axis), group (whose cursor is one),
   * pick (called with the row of the data that is clicked or, by arrow keys and Enter, chosen)}.
   */
  constructor(panel, series, options) {
    this.series = series;
    this.options = options;
    this.hidden = new Set();
    this.marks = [];
    this.axis = "elapsed_seconds";
    this.title = element("h2", "", options.title);
    this.legend = element("p", "legend");
    this.readout = element("p", "readout");
    this.place = element("div", "plot");
    this.place.setAttribute("role", "img");
    const save = saveButton(options.title, () => this.#picture());
    panel.replaceChildren(element("div", "head", this.title, this.legend, save), this.readout, this.place);
    this.#addLegend();
    this.plot = this.#make(this.place, this.#size(), [[], ...series.map(() => [])]);
    if (options.pick) this.#listen();
    new ResizeObserver(() => this.plot.setSize(this.#size())).observe(this.place);
  }

  #size() {
    return { width: Math.max(120, this.place.clientWidth), height: Math.max(100, this.place.clientHeight) };
  }

  #listen() {
    this.place.tabIndex = 0;
    this.place.setAttribute("role", "group");
    this.place.classList.add("pick");
    let pressed = 0;
    const { over } = this.plot;
    over.addEventListener("mousedown", (event) => { pressed = event.clientX; });
    over.addEventListener("click", (event) => {
      const { idx } = this.plot.cursor;
      if (idx != null && Math.abs(event.clientX - pressed) < 4) this.options.pick(idx); // else a stretch was chosen
    });
    this.place.addEventListener("keydown", (event) => {
      const [x] = this.plot.data;
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -16, PageDown: 16, Home: -x.length, End: x.length }[event.key];
      if (x.length === 0 || (!step && event.key !== "Enter")) return;
      event.preventDefault();
      const from = this.plot.cursor.idx ?? x.length - 1;
      const to = Math.min(Math.max(from + (step ?? 0), 0), x.length - 1);
      this.plot.setCursor({ left: this.plot.valToPos(x[to], "x"), top: 10 });
      if (event.key === "Enter") this.options.pick(to);
    });
    this.place.addEventListener("blur", () => this.plot.setCursor({ left: -10, top: -10 }));
  }

  /** Line `index` and the edges of its band. */
  #withBounds(index) {
    const all = [index];
    while (this.series[all[all.length - 1] + 1]?.bound) all.push(all[all.length - 1] + 1);
    return all;
  }

  #addLegend() {
    const lines = this.series.filter((series) => !series.bound);
    if (lines.length < 2) return;
    if (lines[0].fill) // parts of a sum: one cannot go without the others
      return this.legend.replaceChildren(...lines.map(({ name, hue }) => keyOf(name, hue)));
    this.legend.replaceChildren(...lines.map((series) => {
      const button = element("button", "", key(series), series.name);
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      const all = this.#withBounds(this.series.indexOf(series));
      button.addEventListener("click", () => {
        const shown = this.hidden.has(all[0]);
        button.setAttribute("aria-pressed", String(shown));
        for (const i of all) {
          shown ? this.hidden.delete(i) : this.hidden.add(i);
          this.plot.setSeries(i + 1, { show: shown });
        }
      });
      return button;
    }));
  }

  #bands() {
    if (this.series[0].fill) return this.series.slice(1).map((_, i) => ({ series: [i + 2, i + 1] }));
    return this.series.flatMap((series, i) => (series.bound && this.series[i + 1]?.bound
      ? [{ series: [i + 2, i + 1], fill: () => color(series.hue) + "2c" }] : []));
  }

  /** `unit`: how long a pixel of the page is drawn, where `still` makes a picture to save and not a part of the page. */
  #make(place, size, data, { unit = 1, still = false } = {}) {
    const { options } = this;
    const axis = (more) => ({
      stroke: () => color("muted"), font: `${11 * unit}px system-ui, sans-serif`,
      grid: { stroke: () => color("grid"), width: unit }, ticks: { stroke: () => color("grid"), width: unit, size: 4 * unit },
      gap: 4 * unit, ...more });
    const values = (format) => (_, splits) => splits.map((value) => (value === null ? "" : format(value)));
    return new uPlot({
      ...size,
      padding: [10, 12, 0, 4].map((length) => length * unit),
      cursor: still ? { show: false }
        : { sync: { key: options.group ?? "charts", setSeries: false }, y: false, points: { size: 6 }, drag: { x: true, y: false } },
      legend: { show: false },
      scales: {
        x: { time: false },
        y: options.log ? { distr: 3, log: 2 } : { range: options.range ?? ((_, low, high) => spread(low, high)) },
        right: { range: (_, low, high) => spread(low, high) },
      },
      axes: [
        axis({ size: 26 * unit, space: 70 * unit, incrs: () => (this.axis === "elapsed_seconds" ? clockSteps : countSteps),
          values: (_, splits) => splits.map((at) => this.#along(at)) }),
        axis({ size: 52 * unit, space: 30 * unit, values: values(options.text),
          ...(options.log ? { splits: (_, __, low, high) => powersOfTwo(low, high), filter: (_, splits) => splits } : {}) }),
        ...(options.right ? [axis({ scale: "right", side: 1, size: 52 * unit, space: 30 * unit, grid: { show: false },
          values: values(options.right) })] : []),
      ],
      series: [{}, ...this.series.map((series, i) => ({
        label: series.name, scale: series.axis ?? "y", show: !this.hidden.has(i),
        stroke: series.bound ? undefined : () => color(series.hue), width: series.bound ? 0 : (series.width ?? 1.75) * unit,
        dash: series.dash?.length ? series.dash.map((length) => length * unit) : undefined, spanGaps: series.gaps !== true,
        fill: series.fill ? () => color(series.hue) + "d0" : undefined,
        points: { show: series.points ? (plot) => plot.data[i + 1].filter((value) => value != null).length <= 40 : false,
          size: 6 * unit, width: unit, fill: () => color(series.hue) },
      }))],
      bands: this.#bands(),
      hooks: { draw: [(plot) => this.#drawMarks(plot, unit)], setCursor: [() => this.#read()] },
    }, data, place);
  }

  async #picture() {
    const unit = pictureDensity / devicePixelRatio;
    // uPlot draws at the screen's density, so all lengths grow.
    const size = { width: pictureWidth * unit, height: 300 * unit };
    const plot = this.#make(element("div"), size, this.plot.data, { unit, still: true });
    const { min, max } = this.plot.scales.x;
    if (min != null) plot.setScale("x", { min, max });
    await new Promise((done) => setTimeout(done));
    const { canvas } = plot.ctx;
    plot.destroy();
    return { canvas, keys: this.series.filter((series, i) => !series.bound && !this.hidden.has(i) && this.series.length > 1) };
  }

  #along(at) {
    return this.axis === "elapsed_seconds" ? clock(at) : short(at);
  }

  /** data: [x, ...columns]; `raw`: what the readout shows, where it is another than what is drawn. */
  set(data, { axis, marks = [], raw = null, summary = "" }) {
    const moved = this.axis !== axis;
    this.axis = axis;
    this.marks = marks;
    this.raw = raw ?? data;
    this.plot.setData(data, moved || !this.#zoomed());
    this.last = data[0].length > 0 ? [data[0][0], data[0][data[0].length - 1]] : null;
    const label = `${this.options.title}${summary ? ": " + summary : ""}`
      + (this.options.pick ? "; arrow keys choose a window, and Enter explains it" : "");
    if (this.place.getAttribute("aria-label") !== label) this.place.setAttribute("aria-label", label);
    this.#read();
  }

  /** As `set`, of sums that lie on each other; what is hidden is not drawn, but counts. */
  setStacked(sums, parts, more) {
    this.set(sums, { ...more, raw: parts });
  }

  /** Whether the reader has chosen a stretch: then it stays. */
  #zoomed() {
    const { min, max } = this.plot.scales.x;
    return this.last != null && min != null && (min > this.last[0] || max < this.last[1]);
  }

  #read() {
    const { idx, left } = this.plot?.cursor ?? {};
    if (idx == null || left < 0 || !this.raw || this.raw[0][idx] == null) return setText(this.readout, "");
    const parts = [this.#along(this.raw[0][idx])];
    const shown = this.series.map((series, i) => [series, this.raw[i + 1][idx], i])
      .filter(([series, value, i]) => value != null && !series.bound && !this.hidden.has(i));
    for (const [series, value] of shown.slice(0, 8))
      parts.push((this.series.length > 1 ? series.name + " " : "") + (series.text ?? this.options.text)(value));
    const near = this.marks.find((mark) => Math.abs(this.plot.valToPos(mark[this.axis], "x") - left) < 6);
    setText(this.readout, near ? glyphs[near.kind] + " " + near.text : parts.join(" · "));
  }

  #drawMarks(plot, unit) {
    const { ctx, bbox } = plot;
    const pixel = unit * devicePixelRatio;
    ctx.save();
    ctx.font = `${9 * pixel}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    let taken = -Infinity;
    for (const mark of this.marks) {
      const x = plot.valToPos(mark[this.axis], "x", true);
      if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
      const hue = mark.kind === "fault" ? "red" : mark.kind === "back" ? "green" : "muted";
      ctx.strokeStyle = ctx.fillStyle = color(hue);
      ctx.globalAlpha = 0.55;
      ctx.lineWidth = pixel;
      ctx.setLineDash([3 * pixel, 3 * pixel]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.globalAlpha = 1;
      if (x - taken > 9 * pixel) {
        ctx.fillText(glyphs[mark.kind] ?? "◆", x, bbox.top - pixel);
        taken = x;
      }
    }
    ctx.restore();
  }

  /** Colours have changed. */
  repaint() {
    this.plot.redraw(false, true);
  }
}

/** The powers of two in a range, at most some eight of them, which a logarithmic axis labels all. */
function powersOfTwo(low, high) {
  const first = Math.ceil(Math.log2(low) - 1e-9);
  const last = Math.floor(Math.log2(high) + 1e-9);
  const stride = Math.max(1, Math.ceil((last - first) / 8));
  return Array.from({ length: Math.max(0, Math.floor((last - first) / stride) + 1) }, (_, i) => 2 ** (first + i * stride));
}

/** A range with a little room, that has some height also where nothing moves. */
function spread(low, high) {
  if (low == null || high == null) return [0, 1];
  const room = high - low > 0 ? 0.06 * (high - low) : Math.max(Math.abs(high) * 0.1, 1e-6);
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

/** The same with zero in it. */
export function fromZero(_, low, high) {
  return [low < 0 ? low * 1.06 : 0, high > 0 ? high * 1.06 : low < 0 ? 0 : 1];
}

/** Rows of a history that a chart over `axis` can draw: rising, where a resumed run stepped back in samples. */
export function rowsAlong(column) {
  const rows = [];
  let most = -Infinity;
  column.forEach((x, i) => {
    if (x === null || x <= most) return;
    most = x;
    rows.push(i);
  });
  return rows;
}

/** A filled key for a legend that is not a button. */
export function keyOf(name, hue) {
  const made = element("span", "key");
  made.append(key({ hue, fill: true }), name);
  return made;
}
