// A live run in a real browser: it loads at once, its figures are the ledger's, it outlives the arbitrator.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";

import { load, openBrowser, pause, processOf, readLedger, start, temporaryDirectory, until, writeCluster } from "./harness.mjs";

const loadLongest = 1000; // ms
const directory = temporaryDirectory();
const run = path.join(directory, "run");
let local;
let url;
let browser;

before(async () => {
  const cluster = await writeCluster(directory);
  url = cluster.url;
  local = start(["local", "--cluster", cluster.file, "--out", run]);
  await until("the first windows", async () => {
    if (local.child.exitCode !== null) throw new Error(local.said());
    const state = await fetch(url + "api/state").then((answer) => answer.json()).catch(() => null);
    return state?.now.windows >= 5;
  });
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await local?.stop();
  fs.rmSync(directory, { recursive: true, force: true });
});

/** What the page shows, all of one drawing. */
function shown(page) {
  return page.evaluate(() => {
    const tile = (name) => [...document.querySelectorAll(".tile")].find((one) => one.firstChild.textContent === name);
    const value = (name) => tile(name).children[1].textContent;
    const rows = [...document.querySelectorAll("#workers tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent));
    return { window: Number(tile("step").children[2].textContent.replace(/\D/g, "")), phase: document.getElementById("phase").dataset.phase,
      accuracy: value("batch accuracy"), globalBatch: Number(value("global batch").replace(/\D/g, "")), rows };
  });
}

/** The window on the page against the same window in the ledger. */
function compare(seen) {
  const row = readLedger(run).filter((one) => one.kind === "window" && one.key.window === seen.window).at(-1);
  assert.ok(row, `window ${seen.window} is on the page and not in the ledger`);
  const fresh = row.workers.filter((worker) => !worker.stale);
  const number = (text) => Number(text.replace(/[^\d.]/g, ""));
  for (const worker of fresh) {
    const cells = seen.rows.find((one) => one[0].endsWith(worker.report.host));
    assert.ok(cells, `${worker.report.host} has no row`);
    assert.equal(number(cells[1]), worker.report.batch, "batch");
    assert.equal(number(cells[2]), worker.decided_batch, "next");
    assert.equal(cells[7], (100 * worker.report.training.accuracy).toFixed(1) + " %", "accuracy");
  }
  const mean = fresh.reduce((sum, worker) => sum + worker.report.training.accuracy, 0) / fresh.length;
  assert.ok(Math.abs(parseFloat(seen.accuracy) - 100 * mean) < 0.06, `accuracy ${seen.accuracy} and not ${100 * mean} %`);
  assert.equal(seen.globalBatch, fresh[0].report.global_batch);
}

test("loads in less than a second", async () => {
  const times = [];
  for (let i = 0; i < 3; ++i) times.push(await load(browser.page, url));
  console.log(`# loaded in ${times.map((time) => time.toFixed(0)).join(", ")} ms`);
  assert.ok(times.sort((a, b) => a - b)[1] < loadLongest, `${times} ms`);
  assert.deepEqual(browser.problems, []);
});

test("its figures move, and are the ledger's", async () => {
  const windows = new Set();
  while (windows.size < 5) {
    const seen = await shown(browser.page);
    compare(seen);
    windows.add(seen.window);
    await until("the next window on the page", async () => (await shown(browser.page)).window > seen.window);
  }
  assert.deepEqual(browser.problems, []);
});

test("the state, the metrics and the ledger say the same", async () => {
  const state = await fetch(url + "api/state").then((answer) => answer.json());
  const metrics = await fetch(url + "metrics").then((answer) => answer.text());
  const windows = readLedger(run).filter((row) => row.kind === "window");
  const counted = Number(/^dynamix_windows_total (\d+)/m.exec(metrics)[1]);
  assert.ok(counted >= state.now.windows && counted <= windows.length);
  const samples = windows.slice(0, state.now.windows)
    .reduce((sum, row) => sum + row.workers.reduce((all, one) => all + (one.stale ? 0 : one.report.training.samples), 0), 0);
  assert.equal(state.workers.samples.reduce((sum, one) => sum + one, 0), samples);
});

test("switches its axis and its colours by keyboard", async () => {
  const { page } = browser;
  await page.focus('#axis input[value="elapsed_seconds"]');
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.evaluate(() => document.querySelector("#axis input:checked").value), "samples");
  await page.keyboard.press("ArrowLeft");
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await back();
  await page.focus("#theme");
  await page.keyboard.press("Enter");
  assert.notEqual(await back(), light);
  await page.reload();
  assert.notEqual(await back(), light, "the choice is kept");
  await page.focus("#theme");
  await page.keyboard.press("Enter");
  assert.equal(await back(), light);
  assert.deepEqual(browser.problems, []);
});

test("outlives the arbitrator", async () => {
  const { page, problems } = browser;
  await load(page, url);
  const before = await shown(page);
  process.kill(processOf("hub", directory), "SIGKILL");
  await until("the loss on the page", async () => (await shown(page)).phase === "reconnecting");
  await until("the run on the page again", async () => {
    const seen = await shown(page);
    return seen.phase === "training" && seen.window > before.window + 2;
  });
  compare(await shown(page));
  const marks = await fetch(url + "api/state").then((answer) => answer.json()).then((state) => state.marks.map((mark) => mark.kind));
  assert.ok(marks.includes("arbitrator"), `marks: ${marks}`);
  // While nobody listens the browser itself reports the broken stream; the page adds nothing.
  assert.deepEqual(problems.filter((text) => !/net::ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE|CONNECTION_RESET)/.test(text)), []);
});

test("shows how the run ended", async () => {
  const { page } = browser;
  await local.stop();
  await until("the end on the page", async () => (await shown(page)).phase === "ended");
  await pause(1500);
  assert.equal((await shown(page)).phase, "ended");
});
