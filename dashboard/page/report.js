// The report of a run: the live page with the run's state inlined, without a server, and with what came of the run.

import { showCommand } from "/explain.js";
import { Panels } from "/panels.js";
import { tableOf } from "/sheet.js";
import { clock, element, grouped, percent, short } from "/text.js";
import { addControls, at, drawArbitrators, drawEvents, drawHeader, drawHeadline, drawTiles, drawWarnings } from "/view.js";
import { WorkerTable, means, wholeColumns } from "/worker_table.js";

function tilesOf({ now }, summary) {
  const { decisions, overhead } = summary;
  const aimed = summary.target_accuracy > 0;
  const reached = summary.seconds_to_target === null ? "target not reached" : `target after ${clock(summary.seconds_to_target)}`;
  return [
    ["test accuracy", summary.final_accuracy > 0 ? percent(summary.final_accuracy, 2) : "–", aimed ? "target " + percent(summary.target_accuracy) : ""],
    ["training time", clock(summary.wall_seconds), aimed ? reached : `${grouped(summary.epochs)} epochs`],
    ["samples", short(summary.samples), `in ${grouped(summary.steps)} steps`],
    ["throughput", short(summary.wall_seconds > 0 ? summary.samples / summary.wall_seconds : null), "samples per second"],
    ["global batch", now.global_batch === null ? "–" : grouped(now.global_batch), "in the last window"],
    ["workers", grouped(summary.workers), `${grouped(summary.generations)} ${summary.generations === 1 ? "generation" : "generations"}`],
    ["guard", grouped(decisions.interventions), `of ${grouped(decisions.windows)} windows`],
    ["overhead", percent(overhead.control_fraction + overhead.telemetry_fraction, 2),
      `telemetry ${percent(overhead.telemetry_fraction, 2)}`],
  ];
}

/** The last window of the row of the history at that time. In a run that was resumed, one that is near it. */
function windowAt({ now, history }, seconds) {
  const row = history.elapsed_seconds.findIndex((at) => at >= seconds);
  return Math.max(1, Math.min(now.window, (row + 1) * history.stride));
}

function panelOf(heading, ...content) {
  return element("section", "panel", element("h2", "", heading), ...content);
}

/** told: {state, summary, tables: [{heading, rows}], cluster_file}. */
export function showReport({ state, summary, tables, cluster_file: file }) {
  let axis = "elapsed_seconds";
  const phase = summary.succeeded ? "ended" : state.now.phase === "ended" ? "failed" : state.now.phase;
  const when = phase === state.now.phase && phase !== "ended" ? `as of ${clock(state.now.elapsed_seconds)}` : phase;
  drawHeader(state, phase, `${when}: ${summary.reason}`);
  drawHeadline(state);
  drawTiles(tilesOf(state, summary));
  at("workers").hidden = false;
  drawWarnings(summary.warnings);
  const begun = state.now.windows > 0;
  at("empty").hidden = begun;
  at("charts").hidden = !begun;
  const panels = begun ? new Panels((seconds, worker) => showCommand(windowAt(state, seconds), worker)) : null;
  panels?.set(state, axis);
  new WorkerTable(at("workers"), wholeColumns).set(means(state, summary.per_worker));
  at("workers-title").textContent = "Workers, means over the run";
  drawArbitrators(state);
  drawEvents(state);
  const text = Object.assign(element("pre", "", file), { tabIndex: 0 });
  const cluster = element("details", "panel", element("summary", "", "Cluster file, as this run used it"), text);
  at("main").append(...tables.filter(({ rows }) => rows.length > 1).map(({ heading, rows }) => panelOf(heading, tableOf(rows))), cluster);
  addControls(() => panels?.repaint(), (chosen) => {
    axis = chosen;
    panels?.set(state, axis);
  });
  performance.mark("drawn");
}
