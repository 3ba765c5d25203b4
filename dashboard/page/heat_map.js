// Many workers: a row each, time from left to right, the value as a colour (cividis, which colour-blind readers see
// as others do). Arrow keys move the cell that is read out.

import { glyphs } from "/chart.js";
import { color, pictureDensity, pictureWidth, saveButton } from "/picture.js";
import { clock, element, grouped, setText, span } from "/text.js";

const cividis = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120],
  [165, 156, 116], [195, 179, 105], [225, 204, 85], [254, 232, 56]];

function shade(share) {
  const at = Math.min(Math.max(share, 0), 1) * (cividis.length - 1);
  const low = Math.min(Math.floor(at), cividis.length - 2);
  return cividis[low].map((from, i) => Math.round(from + (cividis[low + 1][i] - from) * (at - low)));
}

const signals = {
  batch: { name: "batch size", text: (value) => grouped(value) },
  work_seconds: { name: "work of a step", text: span },
};

const title = "Every worker over time";

export class HeatMap {
  /** `pick` is called with the name of the worker and the seconds of the cell that is clicked or, by Enter, chosen. */
  constructor(panel, pick) {
    this.pick = pick;
    this.signal = "batch";
    this.cell = null;
    this.readout = element("p", "readout");
    this.readout.setAttribute("aria-live", "polite");
    const choice = element("fieldset", "choice");
    choice.append(element("legend", "hidden", "Signal"));
    for (const [value, { name }] of Object.entries(signals)) {
      const input = Object.assign(element("input"), { type: "radio", name: "heat", value, checked: value === this.signal });
      input.addEventListener("change", () => { this.signal = value; this.draw(); });
      choice.append(element("label", "", input, element("span", "", name)));
    }
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.scaleCanvas = element("canvas");
    this.labels = element("ol");
    this.from = element("span");
    this.to = element("span");
    const map = element("div", "", this.canvas, element("div", "times", this.from, this.to));
    panel.replaceChildren(
      element("div", "head", element("h2", "", title), choice,
        saveButton(title, () => this.#picture())),
      this.readout, element("div", "heat", map, element("div", "scale", this.scaleCanvas, this.labels)));
    this.canvas.addEventListener("pointermove", (event) => {
      const box = this.canvas.getBoundingClientRect();
      this.#point((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    });
    this.canvas.addEventListener("pointerleave", () => { this.cell = null; this.draw(); });
    this.canvas.addEventListener("keydown", (event) => this.#move(event));
    this.canvas.addEventListener("click", () => this.#pick());
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  set(names, history, times, marks) {
    this.marks = marks;
    this.names = names;
    this.history = history;
    this.times = times;
    this.draw();
  }

  #point(x, y) {
    const rows = this.history?.[this.signal];
    if (!rows?.[0]?.length) return;
    const clamp = (value, count) => Math.min(Math.max(Math.floor(value * count), 0), count - 1);
    this.cell = { row: clamp(y, rows.length), column: clamp(x, rows[0].length) };
    this.draw();
  }

  #pick() {
    if (this.cell) this.pick(this.names[this.cell.row], this.#timeOf(this.cell.column));
  }

  #timeOf(column) {
    return this.times[Math.round(column * (this.times.length - 1) / Math.max(1, this.history[this.signal][0].length - 1))];
  }

  #move(event) {
    if (event.key === "Enter") return this.#pick();
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-16, 0], PageDown: [16, 0] }[event.key];
    const rows = this.history?.[this.signal];
    if (!step || !rows?.[0]?.length) return;
    event.preventDefault();
    const from = this.cell ?? { row: 0, column: rows[0].length - 1 };
    this.cell = { row: Math.min(Math.max(from.row + step[0], 0), rows.length - 1),
      column: Math.min(Math.max(from.column + step[1], 0), rows[0].length - 1) };
    this.draw();
  }

  /** The lowest and the highest value; null where there is none. */
  #range(rows) {
    let [low, high] = [Infinity, -Infinity];
    for (const row of rows)
      for (const value of row)
        if (value > 0) { low = Math.min(low, value); high = Math.max(high, value); }
    return low <= high ? { low, high } : null;
  }

  draw() {
    const rows = this.history?.[this.signal] ?? [];
    const range = this.#range(rows);
    if (!range) return;
    const width = Math.round(this.canvas.clientWidth * devicePixelRatio);
    const height = Math.round(this.canvas.clientHeight * devicePixelRatio);
    if (width > 0 && height > 0) { // it is shown
      if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
      const context = this.canvas.getContext("2d");
      context.clearRect(0, 0, width, height);
      this.#paint(context, rows, range, { width, height, pixel: devicePixelRatio });
      if (this.cell) this.#paintCell(context, rows, width, height);
    }
    this.#addScale(range);
    setText(this.from, clock(this.times[0]));
    setText(this.to, clock(this.times[this.times.length - 1]));
    const { name, text } = signals[this.signal];
    this.canvas.setAttribute("aria-label",
      `${name} of ${rows.length} workers, from ${text(range.low)} to ${text(range.high)}; arrow keys read a cell, and Enter explains it`);
    if (!this.cell) return setText(this.readout, "");
    const value = rows[this.cell.row]?.[this.cell.column];
    setText(this.readout, `${this.names[this.cell.row]} · ${clock(this.#timeOf(this.cell.column))} · ${value == null ? "absent" : name + " " + text(value)}`);
  }

  #paint(context, rows, { low, high }, { width, height, pixel }) {
    const columns = rows[0].length;
    const image = new ImageData(columns, rows.length);
    const shades = Array.from({ length: 256 }, (_, i) => shade(i / 255));
    const position = (value) => (high > low ? Math.log(value / low) / Math.log(high / low) : 0.5);
    rows.forEach((row, y) => row.forEach((value, x) => {
      if (!(value > 0)) return; // absent: the panel shows through
      const [red, green, blue] = shades[Math.round(255 * position(value))];
      image.data.set([red, green, blue, 255], 4 * (y * columns + x));
    }));
    this.buffer ??= document.createElement("canvas");
    Object.assign(this.buffer, { width: columns, height: rows.length });
    this.buffer.getContext("2d").putImageData(image, 0, 0);
    // Rows and columns that outnumber the pixels are averaged; those that do not stay sharp.
    this.fitted ??= document.createElement("canvas");
    const [fittedWidth, fittedHeight] = [Math.min(columns, width), Math.min(rows.length, height)];
    Object.assign(this.fitted, { width: fittedWidth, height: fittedHeight });
    const between = this.fitted.getContext("2d");
    between.imageSmoothingQuality = "high";
    between.drawImage(this.buffer, 0, 0, fittedWidth, fittedHeight);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.fitted, 0, 0, width, height);
    this.#paintMarks(context, width, height, pixel);
  }

  #paintCell(context, rows, width, height) {
    const [cellWidth, cellHeight] = [width / rows[0].length, height / rows.length];
    context.strokeStyle = "#ffffff";
    context.lineWidth = 2 * devicePixelRatio;
    context.strokeRect(this.cell.column * cellWidth - 2, this.cell.row * cellHeight - 2, cellWidth + 4, cellHeight + 4);
  }

  /** The map with its scale to the right and its times below. */
  #picture() {
    const unit = pictureDensity;
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: pictureWidth * unit, height: 430 * unit });
    const context = canvas.getContext("2d");
    const rows = this.history[this.signal];
    const range = this.#range(rows);
    const [width, height] = [(pictureWidth - 100) * unit, 400 * unit];
    context.translate(14 * unit, 0);
    this.#paint(context, rows, range, { width, height, pixel: unit });
    context.drawImage(this.scaleCanvas, width + 10 * unit, 0, 14 * unit, height);
    context.fillStyle = color("muted");
    context.font = `${11 * unit}px system-ui, sans-serif`;
    context.textBaseline = "top";
    context.textAlign = "left";
    context.fillText(clock(this.times[0]), 0, height + 6 * unit);
    context.textAlign = "right";
    context.fillText(clock(this.times[this.times.length - 1]), width, height + 6 * unit);
    context.textAlign = "left";
    context.textBaseline = "middle";
    const labels = this.#scaleLabels(range);
    labels.forEach((label, i) => context.fillText(label, width + 30 * unit, 6 * unit + i * (height - 12 * unit) / (labels.length - 1)));
    return { canvas, keys: [], heading: `${title}: ${signals[this.signal].name}` };
  }

  /** Where something happened, along the lower edge, as the charts mark it. */
  #paintMarks(context, width, height, pixel) {
    context.font = `${11 * pixel}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.lineWidth = 3 * pixel;
    for (const mark of this.marks ?? []) {
      const after = this.times.findIndex((at) => at >= mark.elapsed_seconds);
      if (after < 0) continue;
      const x = (after / Math.max(1, this.times.length)) * width;
      context.strokeStyle = color("panel");
      context.fillStyle = color(mark.kind === "fault" ? "red" : mark.kind === "back" ? "green" : "text");
      context.strokeText(glyphs[mark.kind] ?? "◆", x, height - 3 * pixel);
      context.fillText(glyphs[mark.kind] ?? "◆", x, height - 3 * pixel);
    }
  }

  #scaleLabels({ low, high }) {
    return [1, 0.75, 0.5, 0.25, 0].map((share) => signals[this.signal].text(low * (high / low) ** share));
  }

  #addScale(range) {
    const context = this.scaleCanvas.getContext("2d");
    Object.assign(this.scaleCanvas, { width: 1, height: 128 });
    for (let y = 0; y < 128; ++y) {
      context.fillStyle = `rgb(${shade(1 - y / 127).join(" ")})`;
      context.fillRect(0, y, 1, 1);
    }
    const labels = this.#scaleLabels(range);
    if (this.labels.textContent !== labels.join("")) this.labels.replaceChildren(...labels.map((label) => element("li", "", label)));
  }
}
