// What the page of a live run and the report of one have in common, besides their charts.

import { glossary } from "/glossary.js";
import { clock, element, grouped, setText, term } from "/text.js";

export const at = (id) => document.getElementById(id);

/** The cluster's name, what else identifies the run, and its phase as a pill. */
export function drawHeader({ run }, phase, said) {
  setText(at("cluster"), run.cluster);
  setText(at("facts"), [run.policy + (run.mode && run.policy.startsWith("ppo") ? ` (${run.mode})` : ""),
    run.shadow ? "shadow: changes nothing" : "", `seed ${run.seed}`,
    run.started_at ? "since " + run.started_at.replace("T", " ").replace("Z", " UTC") : ""].filter(Boolean).join(" · "));
  at("phase").dataset.phase = phase;
  setText(at("phase"), said);
  const title = `${run.cluster} · Dynamix`;
  if (document.title !== title) document.title = title;
}

/** What the batch sizes are worth against equal ones, and why; nothing while that is not known. */
export function drawHeadline({ now }) {
  const section = at("headline");
  section.hidden = !now.headline;
  setText(section.children[0], now.headline ?? "");
  setText(section.children[1], now.because ? now.because + "." : "");
}

/** tiles: [name, value, note, share of a bar or nothing]. */
export function drawTiles(tiles) {
  const section = at("tiles");
  section.classList.remove("skeleton");
  section.removeAttribute("aria-busy");
  if ([...section.children].map((tile) => tile.firstChild.textContent).join() !== tiles.map(([name]) => name).join())
    section.replaceChildren(...tiles.map(([name, , , bar]) => {
      const said = name in glossary ? term(name, glossary[name]) : name;
      const tile = element("div", "tile", element("div", "name", said), element("div", "value"), element("div", "note"));
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

export function drawWarnings(shown) {
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

export function drawArbitrators({ run, now, shards, workers }) {
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

export function drawEvents(state) {
  const { events } = state;
  at("events").hidden = events.length === 0;
  const choice = at("event-kind");
  const kinds = [...new Set(events.map((event) => event.event))].sort();
  if (choice.dataset.kinds !== kinds.join()) {
    choice.dataset.kinds = kinds.join();
    const chosen = choice.value;
    choice.replaceChildren(new Option("all kinds", ""), ...kinds.map((kind) => new Option(kind, kind)));
    choice.value = kinds.includes(chosen) ? chosen : "";
  }
  choice.onchange = () => drawEvents(state);
  const list = at("events").querySelector("ol");
  const newest = events.filter((event) => !choice.value || event.event === choice.value).slice(-100).reverse();
  const told = newest.length ? `${choice.value} ${events.length} ${newest[0].at_seconds} ${newest[0].text}` : "";
  if (list.dataset.told === told) return;
  list.dataset.told = told;
  list.replaceChildren(...newest.map((event) => element("li", "", element("span", "", clock(event.elapsed_seconds)),
    element("span", "", event.event), element("span", "", [event.host, event.text].filter(Boolean).join(": ")))));
}

/** The switches of the header; `repaint` is called when colours have changed, `choose` with the axis. */
export function addControls(repaint, choose) {
  at("axis").addEventListener("change", (event) => choose(event.target.value));
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = at("theme");
  const root = document.documentElement;
  const show = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
    setText(button, dark ? "light" : "dark");
    button.setAttribute("aria-label", `Show the page in ${dark ? "light" : "dark"} colours`);
    repaint();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = button.textContent;
    try {
      localStorage.setItem("dynamix-theme", root.dataset.theme);
    } catch { // a page without an origin keeps nothing
    }
    show();
  });
  system.addEventListener("change", show);
  show();
}
