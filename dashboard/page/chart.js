// A uPlot chart in its panel: title, legend of buttons, the values below the cursor, and marks across.
/* global uPlot */

import { clock, element, setText, short } from "/text.js";

const synced = uPlot.sync("charts");
export const glyphs = { fault: "▲", back: "●", generation: "◆", leader: "★", arbitrator: "■" };
const clockSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];
const countSteps = Array.from({ length: 16 }, (_, i) => [10 ** i, 2 * 10 ** i, 5 * 10 ** i]).flat();
const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

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
   * series: [{name, hue, dash, width, points, fill, gaps, axis, text}], in the order of the data behind its x column.
   * options: {title, text (formats a value), range, log, right (formats the right axis)}.
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
    panel.replaceChildren(element("div", "head", this.title, this.legend, this.readout), this.place);
    this.#addLegend();
    this.#make([[], ...series.map(() => [])]);
    new ResizeObserver(() => this.plot.setSize(this.#size())).observe(this.place);
  }

  #size() {
    return { width: Math.max(120, this.place.clientWidth), height: Math.max(100, this.place.clientHeight) };
  }

  #addLegend() {
    if (this.series.length < 2) return;
    if (this.series[0].fill) // parts of a sum: one cannot go without the others
      return this.legend.replaceChildren(...this.series.map(({ name, hue }) => keyOf(name, hue)));
    this.legend.replaceChildren(...this.series.map((series, i) => {
      const button = element("button", "", key(series), series.name);
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const shown = this.hidden.delete(i) || (this.hidden.add(i), false);
        button.setAttribute("aria-pressed", String(shown));
        this.plot.setSeries(i + 1, { show: shown });
      });
      return button;
    }));
  }

  #make(data) {
    const { options } = this;
    const axis = (more) => ({
      stroke: () => color("muted"), font: "11px system-ui, sans-serif", grid: { stroke: () => color("grid"), width: 1 },
      ticks: { stroke: () => color("grid"), width: 1, size: 4 }, gap: 4, ...more });
    const values = (format) => (_, splits) => splits.map((value) => (value === null ? "" : format(value)));
    this.plot = new uPlot({
      ...this.#size(),
      padding: [10, 12, 0, 4],
      cursor: { sync: { key: synced.key, setSeries: false }, y: false, points: { size: 6 }, drag: { x: true, y: false } },
      legend: { show: false },
      scales: {
        x: { time: false },
        y: options.log ? { distr: 3, log: 2 } : { range: options.range ?? ((_, low, high) => spread(low, high)) },
        right: { range: (_, low, high) => spread(low, high) },
      },
      axes: [
        axis({ size: 26, space: 70, incrs: () => (this.axis === "samples" ? countSteps : clockSteps), values: (_, splits) => splits.map((at) => this.#along(at)) }),
        axis({ size: 52, values: values(options.text) }),
        ...(options.right ? [axis({ scale: "right", side: 1, size: 52, grid: { show: false }, values: values(options.right) })] : []),
      ],
      series: [{}, ...this.series.map((series, i) => ({
        label: series.name, scale: series.axis ?? "y", stroke: () => color(series.hue), width: series.width ?? 1.75,
        dash: series.dash?.length ? series.dash : undefined, spanGaps: series.gaps !== true,
        fill: series.fill ? () => color(series.hue) + "d0" : undefined,
        points: { show: series.points ? (plot) => plot.data[i + 1].filter((value) => value != null).length <= 40 : false, size: 6, fill: () => color(series.hue) },
      }))],
      bands: this.series[0].fill ? this.series.slice(1).map((_, i) => ({ series: [i + 2, i + 1] })) : undefined,
      hooks: { draw: [() => this.#drawMarks()], setCursor: [() => this.#read()] },
    }, data, this.place);
  }

  #along(at) {
    return this.axis === "samples" ? short(at) : clock(at);
  }

  /** data: [x, ...columns]; `raw`: what the readout shows, where it is another than what is drawn. */
  set(data, { axis, marks = [], raw = null, summary = "" }) {
    const moved = this.axis !== axis;
    this.axis = axis;
    this.marks = marks;
    this.raw = raw ?? data;
    this.plot.setData(data, moved || !this.#zoomed());
    this.last = data[0].length > 0 ? [data[0][0], data[0][data[0].length - 1]] : null;
    const label = `${this.options.title}${summary ? ": " + summary : ""}`;
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
      .filter(([, value, i]) => value != null && !this.hidden.has(i));
    for (const [series, value] of shown.slice(0, 8))
      parts.push((this.series.length > 1 ? series.name + " " : "") + (series.text ?? this.options.text)(value));
    const near = this.marks.find((mark) => Math.abs(this.plot.valToPos(mark[this.axis], "x") - left) < 6);
    setText(this.readout, near ? glyphs[near.kind] + " " + near.text : parts.join(" · "));
  }

  #drawMarks() {
    const { plot } = this;
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.font = `${9 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    let taken = -Infinity;
    for (const mark of this.marks) {
      const x = plot.valToPos(mark[this.axis], "x", true);
      if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
      const hue = mark.kind === "fault" ? "red" : mark.kind === "back" ? "green" : "muted";
      ctx.strokeStyle = ctx.fillStyle = color(hue);
      ctx.globalAlpha = 0.55;
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.globalAlpha = 1;
      if (x - taken > 9 * devicePixelRatio) {
        ctx.fillText(glyphs[mark.kind] ?? "◆", x, bbox.top - 1 * devicePixelRatio);
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

/** A range with a little room, that has some height also where nothing moves. */
function spread(low, high) {
  if (low == null || high == null) return [0, 1];
  const room = high - low > 0 ? 0.06 * (high - low) : Math.max(Math.abs(high) * 0.1, 1e-6);
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

/** The same from zero up. */
export function fromZero(_, low, high) {
  return [0, high > 0 ? high * 1.06 : 1];
}

/** A filled key for a legend that is no button. */
export function keyOf(name, hue) {
  const made = element("span", "key");
  made.append(key({ hue, fill: true }), name);
  return made;
}
