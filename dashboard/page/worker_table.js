// One row per worker: what it does now, and where its step's time goes.

import { element, fixed, grouped, percent, setText, span } from "/text.js";

export const partHues = { compute: "blue", cpu_wait: "orange", network: "red", barrier: "purple", exchange: "purple", data: "green", other: "grey" };
export const partNames = { compute: "compute", cpu_wait: "CPU wait", network: "network", barrier: "barrier", exchange: "exchange", data: "data", other: "other" };
const stateGlyphs = { training: "●", waiting: "○", lost: "▲", ended: "■" };
const rowsShown = 32;

const barAt = 6; // the column of a step's time; style.css counts columns too, on a phone

const timeColumn = { name: "a step's time", title: "where it goes", of: (w, i) => w.parts.compute[i] + w.parts.data[i] };

const limitColumn = { name: "limit", title: "the largest batch size that the cluster file, its script and its memory allow",
  of: (w, i) => w.batch_highest[i], text: (limit) => (limit ? grouped(limit) : "–") };

const signed = (samples) => (samples === 0 ? "–" : (samples > 0 ? "+" : "−") + grouped(Math.abs(Math.round(samples))));
const movedText = (samples, slower) => signed(samples) + (slower > 0 ? ` ×${fixed(slower, 1)}` : "");

/** Of a run that goes on: the newest window. `text` gets the value, the workers and the place among them. */
export const newestColumns = [
  { name: "worker", of: (w, i) => w.name[i] },
  { name: "batch", of: (w, i) => w.batch[i], text: grouped },
  { name: "next", title: "decided for the next window; ⛉ the guard overrode the policy's choice", of: (w, i) => w.decided_batch[i],
    text: (batch, w, i) => (w.guarded[i] ? "⛉ " : "") + grouped(batch) },
  { name: "samples/s", of: (w, i) => w.samples_per_second[i], text: grouped },
  { name: "share", title: "of all samples so far", of: (w, i, total) => w.samples[i] / total, text: (share) => percent(share, 1) },
  { name: "step", of: (w, i) => w.step_seconds[i], text: span },
  timeColumn,
  { name: "accuracy", of: (w, i) => w.accuracy[i], text: (share) => percent(share, 1) },
  { name: "reward", of: (w, i) => w.reward[i], text: (reward) => fixed(reward, 3) },
  { name: "moved", title: "samples of the window that balance moved to it (+) or away from it (−); × how much longer its step had become",
    of: (w, i) => w.moved[i], text: (samples, w, i) => movedText(samples, w.slower[i]) },
  limitColumn,
];

/** Of a whole run: means over its steps. */
export const wholeColumns = [
  { name: "worker", of: (w, i) => w.name[i] },
  { name: "mean batch", of: (w, i) => w.mean_batch[i], text: (batch) => fixed(batch, 1) },
  { name: "first → last", of: (w, i) => w.last_batch[i], text: (batch, w, i) => `${grouped(w.first_batch[i])} → ${grouped(batch)}` },
  { name: "samples", of: (w, i) => w.samples[i], text: grouped },
  { name: "share", title: "of all samples", of: (w, i) => w.share[i], text: (share) => percent(share, 1) },
  { name: "step", of: (w, i) => w.step_seconds[i], text: span },
  timeColumn,
  { name: "compute", of: (w, i) => w.parts.compute[i], text: span },
  { name: "slow-down", title: "of computing, as the cluster file sets it", of: (w, i) => w.compute_slowdown[i],
    text: (factor) => fixed(factor, 1) },
  { name: "moved", title: "samples that balance moved to it (+) or away from it (−) between decisions", of: (w, i) => w.moved_samples[i], text: signed },
  limitColumn,
];

/** The workers as the table wants them: columns, here of means over the whole run. */
export function means({ workers }, all) {
  const column = (name) => all.map((one) => one[name]);
  const partOf = ({ time }, name) => time?.[name + "_seconds"] ?? null; // a summary's rows have no `time` where the split is unknown
  const part = (name) => all.map((one) => partOf(one, name));
  const unless = (name, known) => all.map((one) => (partOf(one, "compute") === null ? one[name] : known(one)));
  const newest = (name) => {
    const values = new Map(workers.name.map((host, i) => [host, workers[name][i]]));
    return all.map(({ host }) => values.get(host) ?? null);
  };
  const columns = ["samples", "share", "step_seconds", "mean_batch", "first_batch", "last_batch", "compute_slowdown", "moved_samples"];
  return {
    ...Object.fromEntries(columns.map((name) => [name, column(name)])),
    name: column("host"), state: newest("state").map((state) => state ?? "waiting"), batch_highest: newest("batch_highest"), stale: all.map(() => false),
    parts: { compute: unless("compute_seconds", ({ time }) => time.compute_seconds), cpu_wait: part("cpu_wait"), network: part("network"),
      barrier: part("barrier"), exchange: unless("exchange_seconds", () => 0), data: column("data_seconds"),
      other: part("other") },
  };
}

export class WorkerTable {
  constructor(section, columns) {
    this.columns = columns;
    this.table = section.querySelector("table");
    this.more = section.querySelector("#workers-more");
    this.find = section.querySelector("#find");
    this.legend = section.querySelector("#parts-legend");
    this.sorted = { column: null, down: true };
    this.rows = new Map();
    this.body = element("tbody");
    this.table.replaceChildren(this.#head(), this.body);
    this.find.oninput = () => this.draw(); // of the table that is there now
  }

  #head() {
    const row = element("tr");
    this.columns.forEach((column, at) => {
      const button = element("button", "", column.name);
      button.type = "button";
      if (column.title) button.title = column.title;
      const cell = element("th", at === barAt ? "bar" : "", button);
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

  set(workers) {
    this.workers = workers;
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
    this.columns.forEach((_, at) => row.append(element("td", at === barAt ? "bar" : "")));
    const state = element("span", "state");
    state.setAttribute("role", "img");
    row.children[0].append(state, element("span"));
    row.children[barAt].innerHTML = `<svg viewBox="0 0 1000 12" preserveAspectRatio="none" role="img">${
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
    this.columns.forEach((column, at) => {
      if (at === 0 || at === barAt) return;
      const value = workers.samples[i] > 0 ? column.of(workers, i, total) : null;
      setText(row.children[at], value === null ? "–" : column.text(value, workers, i));
    });
    const svg = row.children[barAt].firstChild;
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
