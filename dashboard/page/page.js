// The page: it asks for the state once, follows the events, and draws at most four times a second.

import { Panels } from "/panels.js";
import { Store } from "/store.js";
import { clock, element, fixed, grouped, percent, setText, short, span } from "/text.js";
import { WorkerTable } from "/worker_table.js";

const drawInterval = 250;
const loadingBytes = 1 << 20;
const at = (id) => document.getElementById(id);
const store = new Store();
const table = new WorkerTable(at("workers"));
let panels = null;
let connected = false;
let due = false;
let axis = "elapsed_seconds";

function draw() {
  due = false;
  if (!store.ready) return;
  const { state } = store;
  drawHeader(state);
  drawTiles(state);
  drawWarnings(state);
  table.set(state.workers);
  drawArbitrators(state);
  drawEvents(state);
  const begun = state.now.windows > 0;
  at("empty").hidden = begun;
  at("charts").hidden = !begun;
  if (!begun) return;
  panels ??= new Panels();
  panels.set(state, axis);
  if (performance.getEntriesByName("drawn").length === 0) performance.mark("drawn");
}

function schedule() {
  if (due) return;
  due = true;
  setTimeout(() => requestAnimationFrame(draw), drawInterval);
}

function drawHeader({ run, now, remaining_bytes: unread }) {
  setText(at("cluster"), run.cluster);
  setText(at("facts"), [run.policy + (run.mode && run.policy.startsWith("ppo") ? ` (${run.mode})` : ""),
    run.shadow ? "shadow: changes nothing" : "", `seed ${run.seed}`,
    run.started_at ? "since " + run.started_at.replace("T", " ").replace("Z", " UTC") : ""].filter(Boolean).join(" · "));
  const phase = connected || now.phase === "ended" ? now.phase : "reconnecting";
  at("phase").dataset.phase = phase;
  const said = { training: `training for ${clock(now.elapsed_seconds)}`, waiting: "waiting for the first window", reconnecting: "connection lost, trying again",
    ended: "ended" + (now.ending ? ": " + now.ending : "") };
  setText(at("phase"), unread > loadingBytes && connected ? "reading the past" : said[phase]);
  const title = `${run.cluster} · Dynamix`;
  if (document.title !== title) document.title = title;
}

function drawTiles({ run, now, workers, evaluations }) {
  const newest = evaluations[evaluations.length - 1];
  const share = run.planned_samples > 0 ? Math.min(1, (now.samples ?? 0) / run.planned_samples) : 0;
  const epochs = run.dataset_samples > 0 ? run.planned_samples / run.dataset_samples : 0;
  const left = now.samples_per_second > 0 ? (run.planned_samples - now.samples) / now.samples_per_second : null;
  const count = (state) => workers.state.filter((one) => one === state).length;
  const missing = count("lost") + count("waiting");
  const tiles = [
    ["test accuracy", percent(newest?.test_accuracy ?? null, 2), run.target_accuracy > 0 ? "target " + percent(run.target_accuracy) : ""],
    ["batch accuracy", percent(now.accuracy), "loss " + fixed(now.loss, 3)],
    ["progress", percent(share, 0), now.phase === "training" && left > 0 ? `at most ${clock(left)} left`
      : `${fixed(share * epochs, 1)} of ${short(epochs)} epochs`, share],
    ["throughput", short(now.samples_per_second), "samples per second"],
    ["step", span(now.step_seconds), `window ${grouped(now.window)}`],
    ["global batch", now.global_batch === null ? "–" : grouped(now.global_batch), "noise scale " + short(now.noise_scale)],
    ["workers", grouped(workers.state.length - missing), missing === 0 ? `all, generation ${now.generation}`
      : `of ${grouped(workers.state.length)}` + (count("lost") ? `, ${count("lost")} lost` : "")],
    ["guard", grouped(now.intervened_windows), `of ${grouped(now.windows)} windows`],
  ];
  const section = at("tiles");
  if (section.children.length !== tiles.length)
    section.replaceChildren(...tiles.map(([name, , , bar]) => {
      const tile = element("div", "tile", element("div", "name", name), element("div", "value"), element("div", "note"));
      if (bar !== undefined) {
        tile.append(Object.assign(element("progress"), { max: 1 }));
        tile.lastChild.setAttribute("aria-label", name);
      }
      return tile;
    }));
  tiles.forEach(([, value, note, bar], i) => {
    const tile = section.children[i];
    setText(tile.children[1], value);
    setText(tile.children[2], note);
    tile.children[2].title = note;
    if (bar !== undefined) tile.children[3].value = bar;
  });
}

function drawWarnings({ warnings, skipped_bytes: skipped }) {
  const shown = skipped > 0
    ? [...warnings, `The ledger is long: its first ${short(skipped)}B are not part of this page.`] : warnings;
  at("warnings").hidden = shown.length === 0;
  const list = at("warnings").firstElementChild;
  if (list.dataset.shown === shown.join("\n")) return;
  list.dataset.shown = shown.join("\n");
  list.replaceChildren(...shown.map((text) => element("li", "", text)));
}

function stateMark(state) {
  const glyph = { up: "●", leads: "★", stands: "○", late: "▲", lost: "▲", ended: "■" }[state] ?? "○";
  const mark = element("span", "state", glyph);
  mark.dataset.state = state;
  mark.setAttribute("aria-hidden", "true");
  return mark;
}

function item(name, state, note) {
  return element("li", "", stateMark(state), `${name} `, element("span", "muted", note));
}

/** The arbitrators of a tree below `parent`: those without children side by side, the others below each other. */
function branch(shards, parent, depth = 0) {
  const byName = new Intl.Collator("en", { numeric: true }).compare;
  const children = shards.filter((shard) => shard.parent === parent).sort((a, b) => byName(a.name, b.name));
  if (children.length === 0 || depth > 8) return [];
  const leaves = element("ul", "leaves");
  const list = element("ul");
  for (const shard of children) {
    const below = branch(shards, shard.name, depth + 1);
    const state = shard.state === "up" ? "" : shard.state + ", ";
    const node = item(shard.name, shard.state, `${state}${grouped(shard.workers)} workers`);
    node.append(...below);
    (below.length > 0 || depth === 0 ? list : leaves).append(node);
  }
  return [list, leaves].filter((one) => one.children.length > 0);
}

function drawArbitrators({ run, now, shards, workers }) {
  const told = JSON.stringify([run.arbitrators, now.leader, now.phase, now.term, now.decisions, now.generation, shards]);
  const tree = at("tree");
  if (tree.dataset.told === told) return;
  tree.dataset.told = told;
  at("arbitrators").classList.toggle("wide", shards.length > 0);
  const many = run.arbitrators.length > 1;
  const list = element("ul", "", ...run.arbitrators.map((name) => {
    const state = now.phase === "ended" ? "ended" : !many ? "up" : name === now.leader ? "leads" : "stands";
    const note = { ended: "ended", up: `decides for ${grouped(workers.name.length)} workers, term ${now.term}`,
      leads: `leads, term ${now.term}`, stands: "stands by" }[state];
    return item(name, state, note);
  }));
  const roots = branch(shards, "");
  const shown = roots.length > 0 && !many ? roots : [list, ...roots]; // the root is the only arbitrator of the file
  tree.replaceChildren(...shown, element("p", "muted",
    `policy version ${now.policy_version}, generation ${now.generation}, ${grouped(now.decisions)} decisions` +
    (now.steps_lost > 0 ? `, steps done again: ${grouped(now.steps_lost)}` : "")));
}

function drawEvents({ events }) {
  const list = at("events").querySelector("ol");
  const newest = events.slice(-100).reverse();
  const told = newest.length ? `${events.length} ${newest[0].at_seconds} ${newest[0].text}` : "";
  if (list.dataset.told === told) return;
  list.dataset.told = told;
  list.replaceChildren(...newest.map((event) => element("li", "", element("span", "", clock(event.elapsed_seconds)),
    element("span", "", event.event), element("span", "", [event.host, event.text].filter(Boolean).join(": ")))));
}

async function load() {
  store.hold();
  try {
    const answer = await fetch("/api/state", { cache: "no-store" });
    if (answer.status === 401) return location.reload(); // the token is another one now
    if (!answer.ok) throw new Error(`the server says ${answer.status}`);
    store.release(await answer.json());
    schedule();
    if (store.state.remaining_bytes > loadingBytes) setTimeout(load, 1000);
  } catch {
    setTimeout(load, 2000);
  }
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
    connected = false;
    if (store.ready && store.state.now.phase === "ended") stream.close();
    else if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 3000); // refused, and not only broken
    if (!store.ready) setText(at("phase"), "no answer, trying again");
    schedule();
  });
}

function addControls() {
  at("axis").addEventListener("change", (event) => {
    axis = event.target.value;
    draw();
  });
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = at("theme");
  const root = document.documentElement;
  const show = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
    setText(button, dark ? "light" : "dark");
    button.setAttribute("aria-label", `Show the page in ${dark ? "light" : "dark"} colours`);
    panels?.repaint();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = button.textContent;
    localStorage.setItem("dynamix-theme", root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  show();
}

addControls();
setText(at("source"), location.host);
load();
follow();
