// A page of sections with tables and charts, as a comparison and the training of a policy have: what they show is in
// the data.
/* global uPlot */

import { Bars } from "/bars.js";
import { Chart, fromZero, lineStyle } from "/chart.js";
import { element, fixed, grouped, percent, setText, short, span } from "/text.js";
import { addControls, at } from "/view.js";
import { partHues, partNames } from "/worker_table.js";

const formats = { number: short, count: grouped, share: (share) => percent(share, 1), ratio: (ratio) => fixed(ratio, 2), span };

const looksNumeric = /^(-|never.*|[-\d,./]+( %)?( ±.*)?)$/;

/** rows: cells of text, the first row the header. Columns of numbers stand to the right. */
export function tableOf(rows) {
  const [head, ...body] = rows;
  const numeric = head.map((_, i) => i > 0 && body.filter((row) => looksNumeric.test(row[i] ?? "")).length * 2 > body.length);
  const cells = (tag, row) => element("tr", "", ...row.map((text, i) => element(tag, numeric[i] ? "" : "text", text)));
  const table = element("table", "cells", element("thead", "", cells("th", head)), element("tbody", "", ...body.map((row) => cells("td", row))));
  for (const cell of table.tHead.rows[0].cells) cell.scope = "col";
  const scroll = element("div", "scroll", table);
  scroll.tabIndex = 0;
  return scroll;
}

/** lines: [{name, x, y, low, high, part}] over a common x. */
function addLines(panel, { title, format, lines, axis = "elapsed_seconds", log = false, stacked = false }, group) {
  const text = formats[format];
  const series = [];
  const tables = [];
  lines.forEach((line, i) => {
    const style = stacked ? { hue: partHues[line.name], fill: true, width: 0.5 } : { ...lineStyle(i), gaps: !!line.gaps };
    series.push({ name: stacked ? partNames[line.name] : line.name, text, ...style });
    tables.push([line.x, line.y]);
    for (const edge of line.low ? [line.low, line.high] : []) {
      series.push({ name: "", hue: style.hue, bound: true });
      tables.push([line.x, edge]);
    }
  });
  const chart = new Chart(panel, series, { title, text, log, group, range: format === "share" || log ? undefined : fromZero });
  const data = uPlot.join(tables);
  if (!stacked) {
    chart.set(data, { axis, summary: `${lines.length} lines` });
    return chart;
  }
  const [x, ...parts] = data;
  const sums = parts.map((column) => column.slice());
  for (let i = 1; i < sums.length; ++i) sums[i] = sums[i].map((value, row) => (value ?? 0) + (sums[i - 1][row] ?? 0));
  chart.setStacked([x, ...sums], [x, ...parts], { axis });
  return chart;
}

function addBars(panel, { title, format, parts = [""], rows }) {
  return new Bars(panel, rows, { title, text: formats[format],
    parts: parts.map((part, i) => ({ name: partNames[part] ?? part, hue: partHues[part] ?? lineStyle(i).hue })) });
}

function sectionOf({ heading, paragraphs = [], warnings = [], table = [], charts = [] }, group, drawn) {
  const section = element("section", "part", element("h2", "", heading));
  section.append(...paragraphs.map((text) => element("p", "muted", text)));
  if (table.length > 1) section.append(element("div", "panel", tableOf(table)));
  section.append(...warnings.map((text) => element("p", "warning", text)));
  const grid = element("div", "grid");
  for (const chart of charts) {
    const panel = element("section", "panel");
    grid.append(panel);
    drawn.push(chart.lines ? addLines(panel, chart, group) : addBars(panel, chart));
  }
  if (charts.length > 0) section.append(grid);
  return section;
}

/** told: {title, command, sections: [{heading, paragraphs, warnings, table, charts}]}. */
export function showSheet({ title, command, sections }) {
  const drawn = [];
  document.title = `${title} · Dynamix`;
  setText(at("cluster"), title);
  at("phase").remove();
  at("axis").hidden = true;
  at("main").replaceChildren(element("pre", "panel command", command), ...sections.map((one, i) => sectionOf(one, `section ${i}`, drawn)));
  addControls(() => drawn.forEach((chart) => chart.repaint()), () => {});
  performance.mark("drawn");
}
