// What the server has told: its state, and every update since.

const rowsKept = 1536;

export class Store {
  constructor() {
    this.state = null;
    this.position = -1;
    this.pending = [];
    this.holding = false;
  }

  get ready() {
    return this.state !== null;
  }

  /** While a state is on its way, updates wait for it. */
  hold() {
    this.holding = true;
  }

  /** The answer of /api/state; the updates that it does not know yet follow. */
  release(state) {
    this.holding = false;
    this.state = state;
    this.position = state.position;
    const pending = this.pending;
    this.pending = [];
    for (const { id, update } of pending) this.take(id, update);
  }

  take(id, update) {
    if (this.holding || !this.ready) {
      this.pending.push({ id, update });
      return;
    }
    if (id <= this.position) return;
    this.position = id;
    const { state } = this;
    if (update.kind === "evaluation") {
      state.evaluations.push(update.evaluation);
    } else if (update.kind === "policy") {
      for (const name of Object.keys(state.policy_history)) state.policy_history[name].push(update.policy[name] ?? null);
      thin(Object.values(state.policy_history));
    } else {
      this.#merge(update);
      if (update.kind === "window") this.#append();
    }
  }

  #merge(update) {
    for (const [name, part] of Object.entries(update)) {
      if (name === "kind") continue;
      if (name === "workers" || name === "now") Object.assign(this.state[name], part);
      else this.state[name] = part;
    }
  }

  /** The newest window as one more row of the past. */
  #append() {
    const { now, workers, history, worker_history: past } = this.state;
    const columns = Object.keys(history).filter((name) => name !== "stride");
    for (const name of columns) history[name].push(now[name] ?? null);
    thin(columns.map((name) => history[name]));
    for (const rows of [past.batch, past.work_seconds]) // hosts may have come to an open cluster
      while (rows.length < workers.name.length) rows.push(new Array(rows[0]?.length ?? 0).fill(null));
    past.batch.forEach((row, i) => row.push(workers.stale[i] || workers.state[i] === "lost" ? null : workers.batch[i]));
    past.work_seconds.forEach((row, i) => row.push(
      workers.stale[i] || workers.state[i] === "lost" ? null : workers.parts.compute[i] + workers.parts.data[i]));
    thin(past.batch);
    thin(past.work_seconds);
  }
}

/** Joins neighbours in the older half of columns that have grown too long. */
function thin(columns) {
  if (columns.length === 0 || columns[0].length <= rowsKept) return;
  for (const column of columns) {
    const half = Math.floor(column.length / 4) * 2;
    const joined = [];
    for (let i = 0; i < half; i += 2) {
      const [left, right] = [column[i], column[i + 1]];
      joined.push(left === null ? right : right === null ? left : (left + right) / 2);
    }
    column.splice(0, half, ...joined);
  }
}
