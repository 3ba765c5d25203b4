// What each panel shows of the state.
/* global uPlot */

import { Chart, fromZero, keyOf, lineStyle, rowsAlong } from "/chart.js";
import { HeatMap } from "/heat_map.js";
import { fixed, grouped, percent, roundPercent, short, span } from "/text.js";
import { partHues, partNames } from "/worker_table.js";

const linesMost = 16; // more workers than that are a heat map

function last(column) {
  return column.length ? column[column.length - 1] : null;
}

export class Panels {
  /** `explain` is called with the seconds of training at a point of the batch chart, and with a worker or nothing. */
  constructor(explain) {
    this.explain = explain;
    const at = (id) => document.getElementById(id);
    this.accuracy = new Chart(at("accuracy"), [
      { name: "training batches", hue: "sky", text: (share) => percent(share) },
      { name: "test set", hue: "blue", points: true, width: 2.25, text: (share) => percent(share, 2) },
      { name: "target", hue: "grey", dash: [2, 4], width: 1.25, text: (share) => percent(share) },
    ], { title: "Accuracy", text: roundPercent });
    this.loss = new Chart(at("loss"), [
      { name: "training batches", hue: "orange", text: (loss) => fixed(loss, 3) },
      { name: "test set", hue: "red", points: true, width: 2.25, text: (loss) => fixed(loss, 3) },
    ], { title: "Loss", text: short });
    this.throughput = new Chart(at("throughput"), [{ name: "all workers", hue: "green" }],
      { title: "Samples per second", text: short, range: fromZero });
    this.reward = new Chart(at("reward"), [{ name: "mean reward", hue: "purple", text: (reward) => fixed(reward, 3) }],
      { title: "Reward", text: (reward) => short(reward) });
    this.policy = new Chart(at("policy"), [
      { name: "entropy (nats)", hue: "blue", text: (nats) => fixed(nats, 3) },
      { name: "KL of an update (nats, right)", hue: "orange", axis: "right", points: true, text: (nats) => fixed(nats, 4) },
    ], { title: "Policy", text: short, right: short });
    this.size = new Chart(at("size"), [
      { name: "global batch", hue: "blue", text: grouped },
      { name: "gradient noise scale", hue: "orange", dash: [7, 4], text: grouped },
      { name: "one standard error less", hue: "orange", bound: true }, { name: "one more", hue: "orange", bound: true },
    ], { title: "Global batch", text: grouped, log: true });
    this.batch = null;
    this.heat = null;
    this.parts = null;
  }

  /** All of it, over "elapsed_seconds" or "samples". */
  set(state, axis) {
    const { history } = state;
    const rows = rowsAlong(history[axis]);
    const pick = (column) => rows.map((i) => column[i]);
    const x = pick(history[axis]);
    const common = { axis, marks: state.marks };
    this.#setEvaluated(state, axis, x, pick, common);
    this.throughput.set([x, pick(history.samples_per_second)],
      { ...common, summary: short(last(history.samples_per_second)) + " samples per second" });
    this.reward.set([x, pick(history.reward)], { ...common, summary: fixed(last(history.reward), 3) });
    const positive = (value) => (value > 0 ? value : null); // the scale is logarithmic
    const noise = pick(history.noise_scale).map(positive);
    const errors = pick(history.noise_error);
    const edge = (sign) => noise.map((value, i) => (value === null || errors[i] === null ? null : value * Math.exp(sign * errors[i])));
    this.size.set([x, pick(history.global_batch).map(positive), noise, edge(-1), edge(1)],
      { ...common, summary: short(last(history.global_batch)) + " samples per step" });
    this.#setPolicy(state, axis, x, pick, common);
    this.#setParts(state, x, pick, common);
    this.#setWorkers(state, axis, common);
  }

  #setEvaluated(state, axis, x, pick, common) {
    const { history, evaluations } = state;
    const places = rowsAlong(evaluations.map((one) => one[axis]));
    const seen = places.map((i) => evaluations[i]);
    const join = (column, member) =>
      uPlot.join([[x, pick(history[column])], [seen.map((one) => one[axis]), seen.map((one) => one[member])]]);
    const accuracy = join("accuracy", "test_accuracy");
    const target = state.run.target_accuracy;
    accuracy.push(accuracy[0].map(() => (target > 0 ? target : null)));
    const newest = last(evaluations);
    this.accuracy.set(accuracy, { ...common,
      summary: `batches ${percent(last(history.accuracy))}, test set ${percent(newest?.test_accuracy ?? null, 2)}` });
    this.loss.set(join("loss", "test_loss"), { ...common, summary: fixed(last(history.loss), 3) });
  }

  #setPolicy(state, axis, x, pick, common) {
    const { history, policy_history: learned } = state;
    const panel = document.getElementById("policy");
    document.getElementById("policy-details").hidden = !history.reward.some((value) => value !== null);
    panel.hidden = !history.entropy.some((value) => value !== null) && learned.elapsed_seconds.length === 0;
    if (panel.hidden) return;
    // A version is published between two windows: it stands where the last of them does.
    const along = learned.elapsed_seconds.map((seconds) => {
      if (axis === "elapsed_seconds") return seconds;
      const row = history.elapsed_seconds.findLastIndex((at) => at !== null && at <= seconds);
      return row < 0 ? 0 : history.samples[row];
    });
    const places = rowsAlong(along);
    this.policy.set(uPlot.join([[x, pick(history.entropy)],
      [places.map((i) => along[i]), places.map((i) => learned.approximate_kl[i])]]),
    { ...common, summary: "entropy " + fixed(last(history.entropy), 3) });
  }

  /** Stacked: each line is drawn at the sum of the parts up to it, from the last to the first. */
  #setParts(state, x, pick, common) {
    const { history } = state;
    const names = Object.keys(partHues).filter((name) => history[name].some((seconds) => seconds > 0));
    if (this.parts?.names.join() !== names.join()) {
      const series = names.map((name) => ({ name: partNames[name], hue: partHues[name], fill: true, width: 0.5, text: span }));
      const panel = document.getElementById("parts");
      this.parts = names.length === 0 ? null
        : Object.assign(new Chart(panel, series, { title: "A step's time, mean of the workers", text: span, range: fromZero }), { names });
      document.getElementById("parts-legend").replaceChildren(...names.map((name) => keyOf(partNames[name], partHues[name])));
    }
    if (!this.parts) return;
    const columns = names.map((name) => pick(history[name]));
    const sums = columns.map((column) => column.slice());
    for (let i = 1; i < sums.length; ++i) sums[i] = sums[i].map((value, row) => (value ?? 0) + (sums[i - 1][row] ?? 0));
    this.parts.setStacked([x, ...sums], [x, ...columns], { ...common, summary: span(last(history.step_seconds)) });
  }

  #setWorkers(state, axis, common) {
    const { name } = state.workers;
    const { batch } = state.worker_history;
    const times = this.#timesOf(state, axis, batch[0]?.length ?? 0);
    if (name.length > linesMost) {
      this.heat ??= new HeatMap(document.getElementById("batch"), (worker, seconds) => this.explain(seconds, worker));
      this.heat.set(name, state.worker_history, this.#timesOf(state, "elapsed_seconds", batch[0].length), state.marks);
      return;
    }
    if (this.batch?.names.join() !== name.join()) // of an open cluster they change
      this.batch = Object.assign(new Chart(document.getElementById("batch"),
        name.map((one, i) => ({ name: one, gaps: true, ...lineStyle(i) })),
        { title: "Batch size of each worker", text: grouped, log: true, pick: (row) => this.explain(this.batch.seconds[row], "") }),
      { names: name.slice() });
    const rows = rowsAlong(times);
    const seconds = this.#timesOf(state, "elapsed_seconds", batch[0]?.length ?? 0);
    this.batch.seconds = rows.map((i) => seconds[i]);
    const positive = (value) => (value > 0 ? value : null); // the scale is logarithmic
    this.batch.set([rows.map((i) => times[i]), ...batch.map((column) => rows.map((i) => positive(column[i])))],
      { ...common, summary: name.map((one, i) => `${one} ${state.workers.batch[i]}`).join(", ") });
  }

  /** The x of rows of the workers' history, which is thinned by itself where there are many workers. */
  #timesOf(state, axis, count) {
    const column = state.history[axis];
    if (count === column.length) return column;
    return Array.from({ length: count }, (_, i) => column[Math.min(column.length - 1,
      Math.round((i + 0.5) * column.length / count - 0.5))]);
  }

  repaint() {
    for (const chart of [this.accuracy, this.loss, this.throughput, this.size, this.reward, this.policy, this.batch, this.parts])
      chart?.repaint();
    this.heat?.draw();
  }
}

