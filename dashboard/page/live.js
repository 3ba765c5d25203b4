// The page of a live run: it asks for the state once, follows the events, and draws at most four times per second.

import { explainAt } from "/explain.js";
import { Panels } from "/panels.js";
import { Store } from "/store.js";
import { clock, element, fixed, grouped, percent, setText, short, span, withError } from "/text.js";
import { addControls, at, drawArbitrators, drawEvents, drawHeader, drawHeadline, drawTiles, drawWarnings } from "/view.js";
import { WorkerTable, means, newestColumns, wholeColumns } from "/worker_table.js";

const drawInterval = 250;
const loadingBytes = 1 << 20;
const pollInterval = 2000;
// One of the runs of a list has no stream of events: it is asked for again and again.
const listed = new URLSearchParams(location.search).get("run");
const stateUrl = "/api/state" + (listed === null ? "" : "?run=" + encodeURIComponent(listed));
const store = new Store();
let table = null;
let panels = null;
let connected = false;
let due = false;
let axis = "elapsed_seconds";

function draw() {
  due = false;
  if (!store.ready) return;
  const { state } = store;
  drawPhase(state);
  drawHeadline(state);
  drawTiles(tilesOf(state));
  drawWarnings(warningsOf(state));
  at("workers").hidden = false;
  drawWorkers(state);
  setText(at("waiting"), state.now.waiting ? sentence(state.now.waiting) : "");
  drawArbitrators(state);
  drawEvents(state);
  const begun = state.now.windows > 0;
  at("empty").hidden = begun;
  at("charts").hidden = !begun;
  if (!begun) return;
  panels ??= new Panels((seconds, worker) => explainAt(seconds, worker, listed));
  panels.set(state, axis);
  if (performance.getEntriesByName("drawn").length === 0) performance.mark("drawn");
}

/** The newest window's while the run goes on, then means over the run. */
function drawWorkers(state) {
  const ended = state.now.phase === "ended" && state.per_worker.length > 0;
  if (!table || table.ended !== ended)
    table = Object.assign(new WorkerTable(at("workers"), ended ? wholeColumns : newestColumns), { ended });
  setText(at("workers-title"), ended ? "Workers, means over the run" : "Workers");
  table.set(ended ? means(state, state.per_worker) : state.workers);
}

function sentence(text) {
  return text[0].toUpperCase() + text.slice(1) + ".";
}

/** Of what is known in a column of the past. */
function meanOf(column) {
  const known = column.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

function schedule() {
  if (due) return;
  due = true;
  setTimeout(() => requestAnimationFrame(draw), drawInterval);
}

function drawPhase(state) {
  const { now, remaining_bytes: unread } = state;
  const phase = connected || now.phase === "ended" ? now.phase : "reconnecting";
  const said = { training: `training for ${clock(now.elapsed_seconds)}`, waiting: now.waiting || "waiting",
    reconnecting: "connection lost, trying again", ended: "ended" + (now.ending ? ": " + now.ending : "") };
  drawHeader(state, phase, unread > loadingBytes && connected ? "reading the past" : said[phase]);
}

function tilesOf({ run, now, workers, evaluations, history }) {
  const ended = now.phase === "ended";
  const speed = ended && now.elapsed_seconds > 0 ? now.samples / now.elapsed_seconds : now.samples_per_second;
  const newest = evaluations[evaluations.length - 1];
  const share = run.planned_samples > 0 ? Math.min(1, (now.samples ?? 0) / run.planned_samples) : 0;
  const epochs = run.dataset_samples > 0 ? run.planned_samples / run.dataset_samples : 0;
  const left = now.samples_per_second > 0 ? (run.planned_samples - now.samples) / now.samples_per_second : null;
  const count = (state) => workers.state.filter((one) => one === state).length;
  const missing = count("lost") + count("waiting");
  return [
    ["test accuracy", percent(newest?.test_accuracy ?? null, 2), run.target_accuracy > 0 ? "target " + percent(run.target_accuracy) : ""],
    ["batch accuracy", percent(now.accuracy), "loss " + fixed(now.loss, 3)],
    !(run.planned_samples > 0) ? ["samples", short(now.samples), "trained on"] : ["progress", percent(share, 0), now.phase === "training" && left > 0 ? `at most ${clock(left)} left`
      : `${fixed(share * epochs, 1)} of ${short(epochs)} epochs`, share],
    ["throughput", short(speed), ended ? "samples/s, mean" : "samples per second"],
    ["step", span(ended ? meanOf(history.step_seconds) : now.step_seconds), ended ? "mean of the run" : `window ${grouped(now.window)}`],
    ["global batch", now.global_batch === null ? "–" : grouped(ended ? meanOf(history.global_batch) : now.global_batch),
      ended ? "mean of the run" : "noise scale " + withError(now.noise_scale, now.noise_error)],
    ["workers", grouped(workers.state.length - missing), missing === 0 ? `all, generation ${now.generation}`
      : `of ${grouped(workers.state.length)}` + (count("lost") ? `, ${count("lost")} lost` : "")],
    ...(run.policy.startsWith("ppo") ? [["guard", grouped(now.intervened_windows), `of ${grouped(now.windows)} windows`]] : []),
  ];
}

function warningsOf({ warnings, skipped_bytes: skipped }) {
  return skipped > 0 ? [...warnings, `The ledger is long: its first ${short(skipped)}B are not part of this page.`] : warnings;
}

async function load() {
  store.hold();
  try {
    const answer = await fetch(stateUrl, { cache: "no-store" });
    if (answer.status === 401) return location.reload(); // the token is another one now
    if (!answer.ok) throw new Error(`the server says ${answer.status}`);
    store.release(await answer.json());
    connected = connected || listed !== null;
    schedule();
    if (listed !== null) return poll();
    if (store.state.remaining_bytes > loadingBytes) setTimeout(load, 1000);
  } catch {
    if (listed !== null) lose();
    setTimeout(load, 2000);
  }
}

function poll() {
  const { now, remaining_bytes: unread } = store.state;
  const reading = unread > 0 || store.state.position === 0;
  if (now.phase !== "ended" || reading) setTimeout(load, reading ? drawInterval : pollInterval);
}

function lose() {
  connected = false;
  if (!store.ready) setText(at("phase"), "no answer, trying again");
  schedule();
}

function follow() {
  const stream = new EventSource("/events");
  stream.addEventListener("open", () => {
    connected = true;
    schedule();
  });
  stream.addEventListener("message", (event) => {
    store.take(Number(event.lastEventId), JSON.parse(event.data));
    schedule();
  });
  stream.addEventListener("reset", load);
  stream.addEventListener("error", () => {
    if (store.ready && store.state.now.phase === "ended") stream.close();
    else if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 3000); // refused, and not only broken
    lose();
  });
}

export function showLive() {
  addControls(() => panels?.repaint(), (chosen) => {
    axis = chosen;
    draw();
  });
  setText(at("source"), location.host);
  load();
  if (listed === null) return follow();
  const back = Object.assign(element("a", "", "all runs"), { href: "/" });
  document.querySelector("header .controls").prepend(back);
  at("metrics-link").remove(); // these are of the page of one run alone
  at("state-link").href = stateUrl;
}
