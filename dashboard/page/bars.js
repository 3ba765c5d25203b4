// Horizontal bars, a row each: one value with its interval, or parts of a sum.

import { keyOf } from "/chart.js";
import { color, pictureDensity, pictureWidth, saveButton } from "/picture.js";
import { element } from "/text.js";

const rowHeight = 26;
const axisHeight = 24;

export class Bars {
  /** options: {title, text (formats a value), parts: [{name, hue}]}. rows: [{name, values, low, high, note}], a value a part. */
  constructor(panel, rows, options) {
    this.rows = rows;
    this.options = options;
    this.canvas = element("canvas", "bars");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${options.title}: ` + rows.map((row) => `${row.name} ${said(row, options)}`).join("; "));
    this.canvas.style.height = `${this.#height()}px`;
    const legend = element("p", "legend", ...this.#keys().map(({ name, hue }) => keyOf(name, hue)));
    panel.replaceChildren(element("div", "head", element("h2", "", options.title), legend,
      saveButton(options.title, () => this.#picture())), this.canvas);
    new ResizeObserver(() => this.repaint()).observe(this.canvas);
  }

  #height() {
    return this.rows.length * rowHeight + axisHeight;
  }

  #keys() {
    return this.options.parts.length > 1 ? this.options.parts : [];
  }

  repaint() {
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (width === 0) return; // not shown
    Object.assign(this.canvas, { width: Math.round(width * devicePixelRatio), height: Math.round(height * devicePixelRatio) });
    this.#draw(this.canvas.getContext("2d"), width, devicePixelRatio);
  }

  #picture() {
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: pictureWidth * pictureDensity, height: (this.#height() + 8) * pictureDensity });
    const context = canvas.getContext("2d");
    context.translate(14 * pictureDensity, 0);
    this.#draw(context, pictureWidth - 28, pictureDensity);
    return { canvas, keys: this.#keys().map((part) => ({ ...part, fill: true })) };
  }

  #draw(context, width, density) {
    context.scale(density, density);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const { text } = this.options;
    const ends = this.rows.map((row) => Math.max(row.high ?? 0, row.values.reduce((sum, value) => sum + (value ?? 0), 0)));
    const most = Math.max(...ends, 1e-12) * 1.02;
    const left = Math.min(width * 0.4, 8 + Math.max(...this.rows.map((row) => context.measureText(row.name).width)));
    const right = 8 + Math.max(...this.rows.map((row) => context.measureText(said(row, this.options)).width));
    const along = (value) => left + (value / most) * (width - left - right);
    const bottom = this.rows.length * rowHeight;
    context.lineWidth = 1;
    for (const tick of ticks(most, (width - left - right) / 70)) {
      context.strokeStyle = color("grid");
      context.beginPath();
      context.moveTo(along(tick), 0);
      context.lineTo(along(tick), bottom);
      context.stroke();
      context.fillStyle = color("muted");
      context.textAlign = "center";
      context.fillText(tick === 0 ? "0" : text(tick), along(tick), bottom + 12);
    }
    this.rows.forEach((row, i) => this.#drawRow(context, row, (i + 0.5) * rowHeight, { left, along, end: ends[i] }));
  }

  #drawRow(context, row, y, { left, along, end }) {
    context.fillStyle = color("text");
    context.textAlign = "right";
    context.fillText(row.name, left - 8, y, left - 8);
    let sum = 0;
    row.values.forEach((value, part) => {
      context.fillStyle = color(this.options.parts[part].hue);
      context.fillRect(along(sum), y - 7, along(sum + (value ?? 0)) - along(sum), 14);
      sum += value ?? 0;
    });
    if (row.low != null && row.high != null) {
      context.strokeStyle = color("text");
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(along(Math.max(0, row.low)), y);
      context.lineTo(along(row.high), y);
      for (const edge of [Math.max(0, row.low), row.high]) {
        context.moveTo(along(edge), y - 4);
        context.lineTo(along(edge), y + 4);
      }
      context.stroke();
    }
    context.fillStyle = color("muted");
    context.textAlign = "left";
    context.fillText(said(row, this.options), along(end) + 6, y);
  }
}

function said({ values, note }, { text }) {
  const known = values.filter((value) => value != null);
  return [known.length > 0 ? text(known.reduce((sum, value) => sum + value, 0)) : "", note].filter(Boolean).join(", ");
}

/** Round numbers from 0 to `most`, about `count` of them. */
function ticks(most, count) {
  const rough = most / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}
