// The list of the runs in a directory, and the chosen ones on one time axis. It asks for the list every two seconds,
// and for the course of a chosen run where that has grown.
/* global uPlot */

import { Chart, fromZero, lineStyle, rowsAlong } from "/chart.js";
import { clock, element, fixed, grouped, percent, roundPercent, setText, short } from "/text.js";
import { addControls, at, drawWarnings } from "/view.js";

const askInterval = 2000;
const comparedMost = 8; // as many as there are hues
const states = { unread: ["○", "not read yet"], waiting: ["○", "waiting"], training: ["●", "training"], silent: ["▲", "stopped without an end"],
  ended: ["■", "ended"], failed: ["▲", "failed"], broken: ["▲", "cannot be read"] };
const looks = { unread: "waiting", silent: "lost", failed: "lost", broken: "lost" }; // as style.css colours a worker's state
const chosen = []; // names, in the order of their choice
const courses = new Map();
let told = null;
let charts = null;
let axis = "elapsed_seconds";
let sorted = { name: "written", down: true };

/** When a run began or, where it does not say, was written last: in the reader's own time. */
function when(run) {
  const date = new Date(run.started_at || 1000 * run.written_seconds);
  const pad = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${pad(date.getHours())}:${pad(date.getMinutes())}`;
}

function targetText(run) {
  if (!(run.target_accuracy > 0)) return "no target";
  if (run.seconds_to_target !== null) return `${clock(run.seconds_to_target)} (${roundPercent(run.target_accuracy)})`;
  return (run.state === "training" || run.state === "waiting" ? "not yet" : "not reached") + ` (${roundPercent(run.target_accuracy)})`;
}

// `name` is also the class of its cells: style.css hides some on a phone.
const columns = [
  { name: "run", title: "run", of: (run) => run.name },
  { name: "policy", title: "policy", of: (run) => run.policy, text: (run) => run.policy + (run.script ? ", script" : "") },
  { name: "workers", title: "workers", of: (run) => run.workers, text: (run) => grouped(run.workers) },
  { name: "status", title: "state", of: (run) => run.state, text: (run) => states[run.state][1] },
  { name: "accuracy", title: "accuracy", of: (run) => run.test_accuracy, text: (run) => percent(run.test_accuracy, 2) },
  { name: "target", title: "time to target", of: (run) => run.seconds_to_target, text: targetText },
  { name: "trained", title: "trained for", of: (run) => run.elapsed_seconds, text: (run) => clock(run.elapsed_seconds) },
  { name: "speed", title: "samples/s", of: (run) => run.samples / run.elapsed_seconds, text: (run) => (run.elapsed_seconds > 0 ? grouped(run.samples / run.elapsed_seconds) : "–") },
  { name: "written", title: "began", of: (run) => (run.started_at ? Date.parse(run.started_at) / 1000 : run.written_seconds), text: when },
];

class RunTable {
  constructor(table) {
    this.rows = new Map();
    this.head = element("tr", "", element("th", "pick", element("span", "hidden", "compare")));
    for (const column of columns) this.head.append(this.#headOf(column));
    this.body = element("tbody");
    table.replaceChildren(element("thead", "", this.head), this.body);
    at("find").addEventListener("input", () => this.draw());
  }

  #headOf(column) {
    const button = element("button", "", column.title);
    button.type = "button";
    const cell = element("th", column.name, button);
    cell.scope = "col";
    button.addEventListener("click", () => {
      sorted = { name: column.name, down: sorted.name === column.name ? !sorted.down : true };
      this.draw();
    });
    return cell;
  }

  #order() {
    const wanted = at("find").value.trim().toLowerCase();
    const { of } = columns.find(({ name }) => name === sorted.name);
    const runs = told.runs.filter((run) => `${run.name} ${run.cluster} ${run.policy} ${states[run.state][1]}`.toLowerCase().includes(wanted));
    const unknown = (value) => value === null || Number.isNaN(value);
    return runs.sort((a, b) => {
      const [x, y] = [of(a), of(b)];
      if (unknown(x) || unknown(y)) return unknown(x) - unknown(y); // what is not known is last either way
      return (x < y ? -1 : x > y ? 1 : a.name < b.name ? -1 : 1) * (sorted.down ? -1 : 1);
    });
  }

  draw() {
    if (!told) return;
    columns.forEach(({ name }, i) => {
      const cell = this.head.children[i + 1];
      if (name === sorted.name) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    const order = this.#order();
    const rows = order.map((run) => {
      const row = this.rows.get(run.name) ?? this.rows.set(run.name, this.#rowOf(run)).get(run.name);
      this.#fill(row, run);
      return row;
    });
    if (rows.length !== this.body.children.length || rows.some((row, i) => this.body.children[i] !== row)) {
      const focused = document.activeElement;
      this.body.replaceChildren(...rows);
      if (this.body.contains(focused)) focused.focus();
    }
    const hidden = told.runs.length - rows.length;
    setText(at("runs-more"), [hidden > 0 ? `${grouped(rows.length)} of ${grouped(told.runs.length)} runs` : "",
      told.runs_more > 0 ? `${grouped(told.runs_more)} older ones are not listed` : "",
      told.runs.length === 0 && told.left_out.length > 0 ? "No run is in this directory." : ""].filter(Boolean).join("; "));
  }

  #rowOf(run) {
    const box = element("input");
    box.type = "checkbox";
    box.setAttribute("aria-label", `Compare ${run.name}`);
    box.addEventListener("change", () => choose(run.name, box.checked));
    const link = element("a", "", run.name);
    link.href = "/?run=" + encodeURIComponent(run.name);
    const mark = element("span", "state");
    mark.setAttribute("aria-hidden", "true");
    const cells = columns.map(({ name }) => element("td", name));
    cells[0].append(link);
    cells[3].append(mark, element("span"), element("span", "said muted"));
    return element("tr", "", element("td", "pick", element("label", "", box)), ...cells);
  }

  #fill(row, run) {
    const box = row.querySelector("input");
    const course = run.windows > 0;
    box.checked = chosen.includes(run.name);
    box.disabled = !course || (!box.checked && chosen.length >= comparedMost);
    box.title = !course ? "It has trained no window" : box.disabled ? `At most ${comparedMost} are compared at once` : "";
    const place = chosen.indexOf(run.name);
    row.firstChild.style.setProperty("--chosen", place < 0 ? "transparent" : `var(--${lineStyle(place).hue})`);
    const link = row.children[1].firstChild;
    row.dataset.state = run.state;
    if (run.state === "broken" || run.state === "unread") link.removeAttribute("href");
    const [mark, state, said] = row.querySelector("td.status").children;
    mark.dataset.state = looks[run.state] ?? run.state;
    setText(mark, states[run.state][0]);
    setText(state, states[run.state][1]);
    const reason = run.state === "training" || !run.said ? "" : ": " + run.said;
    setText(said, reason);
    said.title = run.said;
    columns.forEach((column, i) => {
      if (column.name !== "run" && column.name !== "status") setText(row.children[i + 1], run.state === "broken" ? "–" : column.text(run));
    });
  }
}

function choose(name, wanted) {
  const place = chosen.indexOf(name);
  if (wanted && place < 0 && chosen.length < comparedMost) chosen.push(name);
  if (!wanted && place >= 0) chosen.splice(place, 1);
  keepChoice();
  table.draw();
  compare();
}

/** In the address, so that it can be sent to others and outlives a reload. */
function keepChoice() {
  history.replaceState(null, "", chosen.length ? "#compare=" + chosen.map(encodeURIComponent).join(",") : location.pathname);
}

function readChoice() {
  const [, names] = /^#compare=(.+)$/.exec(location.hash) ?? [];
  chosen.splice(0, chosen.length, ...(names?.split(",") ?? []).slice(0, comparedMost).map((name) => {
    try {
      return decodeURIComponent(name);
    } catch {
      return name;
    }
  }));
}

let table = null;

/** Loads what is not known yet of the chosen runs, and draws them. */
async function compare() {
  const wanted = chosen.map((name) => told?.runs.find((run) => run.name === name)).filter((run) => run?.windows > 0);
  await Promise.all(wanted.map(async (run) => {
    if (courses.get(run.name)?.windows >= run.windows) return;
    const answer = await fetch("/api/course?run=" + encodeURIComponent(run.name), { cache: "no-store" }).catch(() => null);
    if (answer?.ok) courses.set(run.name, await answer.json());
  }));
  const shown = wanted.filter((run) => chosen.includes(run.name) && courses.has(run.name));
  at("charts").hidden = shown.length === 0;
  at("clear").hidden = chosen.length === 0;
  setText(at("verdict"), shown.length === 0 ? (told?.runs.length ? "Choose runs in the table to compare them." : "") : verdictOf(shown));
  if (shown.length === 0) return;
  const names = shown.map(({ name }) => name).join("\n");
  if (charts?.names !== names) charts = { ...chartsOf(shown), names };
  draw(shown);
}

/** Who was fastest to the common target or, without one, per second. */
function verdictOf(runs) {
  if (runs.length === 1) return "One run is chosen; choose another to compare it with.";
  const targets = new Set(runs.map((run) => run.target_accuracy));
  const said = (best, other, times, what) => (times < 1.005 ? `${best.name} and ${other.name} are equal in ${what}.`
    : `${best.name} ${what === "time" ? "reached" : "trains"} ${what === "time" ? `${roundPercent(best.target_accuracy)} ${fixed(times, 2)} times sooner than`
      : `${fixed(times, 2)} times as many samples per second as`} ${other.name}.`);
  const reached = runs.filter((run) => run.seconds_to_target !== null).sort((a, b) => a.seconds_to_target - b.seconds_to_target);
  if (targets.size === 1 && reached.length >= 2) {
    const [best, last] = [reached[0], reached[reached.length - 1]];
    const open = runs.length - reached.length;
    return said(best, last, last.seconds_to_target / best.seconds_to_target, "time") + (open > 0 ? ` ${open} of ${runs.length} have not reached it.` : "");
  }
  if (targets.size === 1 && reached.length === 1)
    return `Only ${reached[0].name} reached ${roundPercent(reached[0].target_accuracy)}, after ${clock(reached[0].seconds_to_target)}.`;
  const speed = (run) => run.samples / run.elapsed_seconds;
  const order = runs.slice().sort((a, b) => speed(b) - speed(a));
  const [best, last] = [order[0], order[order.length - 1]];
  if (!(speed(last) > 0)) return "";
  return said(best, last, speed(best) / speed(last), "speed") + (targets.size > 1 ? " Their targets differ." : "");
}

function chartsOf(runs) {
  const lines = (text, more) => runs.map(({ name }, i) => ({ name, ...lineStyle(i), dash: [], text, ...more }));
  const make = (id, title, text, options, more = {}) => new Chart(at(id), lines(text, more), { title, text: options.axisText ?? text, ...options });
  const tested = runs.some(({ name }) => courses.get(name).evaluations.length > 0);
  return { tested,
    accuracy: make("accuracy", tested ? "Test accuracy" : "Accuracy of training batches", (share) => percent(share, 2), { axisText: roundPercent }, { points: tested }),
    loss: make("loss", "Loss of training batches", (loss) => fixed(loss, 3), { axisText: short }),
    throughput: make("throughput", "Samples per second", short, { range: fromZero }),
    size: make("size", "Global batch", grouped, { log: true }) };
}

function draw(runs) {
  const known = runs.map(({ name }) => courses.get(name));
  const positive = (value) => (value > 0 ? value : null); // the scale is logarithmic
  const column = (name, of = (value) => value) => uPlot.join(known.map(({ history }) => rising(history[axis], history[name].map(of))));
  const evaluated = uPlot.join(known.map(({ evaluations }) => rising(evaluations.map((one) => one[axis]), evaluations.map((one) => one.test_accuracy))));
  const common = { axis, summary: `${runs.length} runs` };
  charts.accuracy.set(charts.tested ? evaluated : column("accuracy"), common);
  charts.loss.set(column("loss"), common);
  charts.throughput.set(column("samples_per_second"), common);
  charts.size.set(column("global_batch", positive), common);
}

function rising(x, y) {
  const rows = rowsAlong(x);
  return [rows.map((i) => x[i]), rows.map((i) => y[i])];
}

function drawList() {
  const live = told.runs.filter(({ state }) => state === "training" || state === "waiting").length;
  const unread = told.runs.filter(({ state }) => state === "unread").length;
  at("phase").dataset.phase = live > 0 ? "training" : "ended";
  setText(at("phase"), `${grouped(told.runs.length)} ${told.runs.length === 1 ? "run" : "runs"}`
    + (unread > 0 ? `, ${grouped(unread)} not read yet` : live > 0 ? `, ${grouped(live)} live` : ""));
  setText(at("directory"), told.directory);
  drawWarnings(told.problem ? [`${told.directory} cannot be read: ${told.problem}`] : []);
  const others = told.left_out.length + told.left_out_more;
  at("left-out").hidden = others === 0;
  setText(at("left-out").firstChild, `${grouped(others)} ${others === 1 ? "entry is" : "entries are"} left out`);
  const said = told.left_out.map(({ name, reason }) => `${name} ${reason}`);
  if (told.left_out_more > 0) said.push(`and ${grouped(told.left_out_more)} more`);
  const list = at("left-out").querySelector("ul");
  if (list.dataset.shown !== said.join("\n")) {
    list.dataset.shown = said.join("\n");
    list.replaceChildren(...said.map((text) => element("li", "", text)));
  }
  table.draw();
}

async function ask() {
  try {
    const answer = await fetch("/api/runs", { cache: "no-store" });
    if (answer.status === 401) return location.reload(); // the token is another one now
    if (!answer.ok) throw new Error(`the server says ${answer.status}`);
    told = await answer.json();
    drawList();
    await compare();
    if (performance.getEntriesByName("drawn").length === 0) performance.mark("drawn");
  } catch {
    at("phase").dataset.phase = "reconnecting";
    setText(at("phase"), "no answer, trying again");
  }
  setTimeout(ask, askInterval);
}

export function showRuns() {
  table = new RunTable(at("runs").querySelector("table"));
  addControls(() => Object.values(charts ?? {}).forEach((chart) => chart?.repaint?.()), (wanted) => {
    axis = wanted;
    compare();
  });
  at("clear").addEventListener("click", () => {
    chosen.length = 0;
    keepChoice();
    table.draw();
    compare();
    at("find").focus();
  });
  addEventListener("hashchange", () => {
    readChoice();
    table.draw();
    compare();
  });
  setText(at("source"), location.host);
  readChoice();
  ask();
}
