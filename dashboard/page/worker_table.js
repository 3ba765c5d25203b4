// One row a worker: what it does now, and where its step's time goes.

import { element, fixed, grouped, percent, setText, span } from "/text.js";

export const partHues = { compute: "blue", cpu_wait: "orange", network: "red", barrier: "purple", exchange: "purple", data: "green", other: "grey" };
export const partNames = { compute: "compute", cpu_wait: "CPU wait", network: "network", barrier: "barrier", exchange: "exchange", data: "data", other: "other" };
const stateGlyphs = { training: "●", waiting: "○", lost: "▲", ended: "■" };
const rowsShown = 32;

const columns = [
  { name: "worker", of: (w, i) => w.name[i] },
  { name: "batch", of: (w, i) => w.batch[i], text: grouped },
  { name: "next", title: "decided for the next window; ⛉ the guard stepped in", of: (w, i) => w.decided_batch[i], text: grouped },
  { name: "samples/s", of: (w, i) => w.samples_per_second[i], text: grouped },
  { name: "share", title: "of all samples so far", of: (w, i, total) => w.samples[i] / total, text: (share) => percent(share, 1) },
  { name: "step", of: (w, i) => w.step_seconds[i], text: span },
  { name: "a step's time", title: "where it goes", bar: true, of: (w, i) => w.parts.compute[i] + w.parts.data[i] },
  { name: "accuracy", of: (w, i) => w.accuracy[i], text: (share) => percent(share, 1) },
  { name: "reward", of: (w, i) => w.reward[i], text: (reward) => fixed(reward, 3) },
];

export class WorkerTable {
  constructor(section) {
    this.table = section.querySelector("table");
    this.more = section.querySelector("#workers-more");
    this.find = section.querySelector("#find");
    this.legend = section.querySelector("#parts-legend");
    this.sorted = { column: null, down: true };
    this.rows = new Map();
    this.body = element("tbody");
    this.table.replaceChildren(this.#head(), this.body);
    this.find.addEventListener("input", () => this.draw());
  }

  #head() {
    const row = element("tr");
    columns.forEach((column) => {
      const button = element("button", "", column.name);
      button.type = "button";
      if (column.title) button.title = column.title;
      const cell = element("th", column.bar ? "bar" : "", button);
      cell.scope = "col";
      button.addEventListener("click", () => {
        const same = this.sorted.column === column;
        this.sorted = same && !this.sorted.down ? { column: null, down: true } : { column, down: !same };
        for (const other of row.children) other.removeAttribute("aria-sort");
        if (this.sorted.column) cell.setAttribute("aria-sort", this.sorted.down ? "descending" : "ascending");
        this.draw();
      });
      row.append(cell);
    });
    return element("thead", "", row);
  }

  set(workers, known) {
    this.workers = workers;
    this.known = known;
    this.find.parentElement.hidden = workers.name.length <= rowsShown;
    this.draw();
  }

  #order() {
    const { workers } = this;
    const total = workers.samples.reduce((sum, one) => sum + one, 0) || 1;
    const wanted = this.find.value.trim().toLowerCase();
    const order = workers.name.map((_, i) => i).filter((i) => workers.name[i].toLowerCase().includes(wanted));
    const { column, down } = this.sorted;
    if (column) {
      const value = (i) => column.of(workers, i, total);
      order.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (down ? -1 : 1));
    } else if (order.length > rowsShown) { // who is missing first
      const rank = { lost: 0, waiting: 1 };
      order.sort((a, b) => (rank[workers.state[a]] ?? 2) - (rank[workers.state[b]] ?? 2) || a - b);
    }
    return { order, total };
  }

  draw() {
    if (!this.workers) return;
    const { order, total } = this.#order();
    const shown = order.slice(0, rowsShown);
    const longest = Math.max(...this.workers.step_seconds, 1e-9);
    const rows = shown.map((i) => {
      const row = this.rows.get(i) ?? this.rows.set(i, this.#row()).get(i);
      this.#fill(row, i, total, longest);
      return row;
    });
    if (rows.length !== this.body.children.length || rows.some((row, i) => this.body.children[i] !== row))
      this.body.replaceChildren(...rows);
    setText(this.more, order.length > shown.length
      ? `${shown.length} of ${grouped(order.length)} workers; sort by a column, or find one by its name` : "");
  }

  #row() {
    const row = element("tr");
    for (const column of columns) row.append(element("td", column.bar ? "bar" : ""));
    const state = element("span", "state");
    state.setAttribute("role", "img");
    row.children[0].append(state, element("span"));
    row.children[6].innerHTML = `<svg viewBox="0 0 1000 12" preserveAspectRatio="none" role="img">${
      Object.values(partHues).map((hue) => `<rect height="12" fill="var(--${hue})"/>`).join("")}</svg>`;
    return row;
  }

  #fill(row, i, total, longest) {
    const { workers } = this;
    const [state, name] = row.children[0].children;
    state.dataset.state = workers.state[i];
    state.setAttribute("aria-label", workers.state[i]);
    state.title = workers.state[i];
    setText(state, stateGlyphs[workers.state[i]]);
    setText(name, workers.name[i] + (workers.stale[i] ? " (late)" : ""));
    columns.forEach((column, at) => {
      if (at === 0 || column.bar) return;
      const text = workers.step_seconds[i] > 0 ? column.text(column.of(workers, i, total)) : "–";
      setText(row.children[at], column.name === "next" && workers.guarded[i] ? "⛉ " + text : text);
    });
    const svg = row.children[6].firstChild;
    let x = 0;
    const said = [];
    Object.keys(partHues).forEach((part, k) => {
      const seconds = workers.parts[part][i];
      const width = Math.max(0, 1000 * seconds / longest);
      const rect = svg.children[k];
      rect.setAttribute("x", x.toFixed(1));
      rect.setAttribute("width", width.toFixed(1));
      x += width;
      if (seconds > 0) said.push(`${partNames[part]} ${span(seconds)}`);
    });
    svg.setAttribute("aria-label", said.join(", "));
  }
}
