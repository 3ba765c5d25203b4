// The list of the runs in a directory: live, finished, broken and none; chosen ones on one time axis; by keyboard, wide
// and as wide as a phone.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";

import { barriers, faults, freePorts, load, openBrowser, pictures, readLedger, source, start, temporaryDirectory, trainFour, until, writeCluster } from "./harness.mjs";

const directory = temporaryDirectory();
const runs = path.join(directory, "runs");
let url;
let server;
let local;

/** A run in virtual time under `policy`, which takes a second. */
async function simulate(policy) {
  const simulated = start(["simulate", "--cluster", path.join(source, "deployments/scenarios/test/straggler-12.toml"),
    "--policy", policy, "--out", path.join(runs, policy), "--quiet"]);
  assert.equal(await simulated.ended, 0, simulated.said());
}

before(async () => {
  fs.mkdirSync(pictures, { recursive: true });
  fs.mkdirSync(path.join(runs, "notes"), { recursive: true });
  fs.mkdirSync(path.join(runs, "torn"));
  fs.writeFileSync(path.join(runs, "torn", "cluster.toml"), "[cluster\n");
  fs.renameSync(await trainFour(directory), path.join(runs, "trained"));
  for (const policy of ["static", "goodput"]) await simulate(policy);
  const { file } = await writeCluster(directory);
  local = start(["local", "--cluster", file, "--out", path.join(runs, "live"), "--quiet"]);
  const [port] = await freePorts(1);
  url = `http://127.0.0.1:${port}/`;
  server = start(["dashboard", "--runs", runs, "--listen", `127.0.0.1:${port}`]);
  await until("all runs in the list", async () => {
    if (local.child.exitCode !== null) throw new Error(local.said());
    const told = await fetch(url + "api/runs").then((answer) => answer.json()).catch(() => null);
    return told?.runs.length === 5 && told.runs.every(({ state }) => state !== "unread") && told.runs.find(({ name }) => name === "live").windows >= 3;
  });
}, { timeout: 300_000 });

after(async () => {
  await server?.stop();
  await local?.stop();
  fs.rmSync(directory, { recursive: true, force: true });
});

const rowOf = (page, name) => page.locator("#runs tbody tr", { has: page.locator(`input[aria-label="Compare ${name}"]`) });
const box = (page, name) => rowOf(page, name).locator("input");
const cell = (page, name, column) => rowOf(page, name).locator(`td.${column}`).textContent();

test("lists what each run's ledger says, and names what is no run", async () => {
  const { page, problems, close } = await openBrowser();
  try {
    await load(page, url);
    assert.match(await page.textContent("#phase"), /^5 runs, 1 live$/);
    assert.equal(await cell(page, "live", "status"), "●training");
    assert.match(await cell(page, "trained", "status"), /^■ended: /);
    assert.match(await cell(page, "torn", "status"), /^▲cannot be read: .*torn\/cluster.toml:1/);
    assert.equal(await box(page, "torn").isDisabled(), true);
    assert.equal(await cell(page, "static", "policy"), "static");
    assert.equal(await cell(page, "trained", "workers"), "4");
    const target = await page.evaluate(() => fetch("/api/runs").then((answer) => answer.json()).then(({ runs: all }) => all.find(({ name }) => name === "goodput")));
    const reached = readLedger(path.join(runs, "goodput")).filter((row) => row.kind === "evaluation")
      .find((row) => row.report.test_accuracy >= target.target_accuracy);
    assert.ok(Math.abs(target.seconds_to_target - reached.report.elapsed_seconds) < 0.01 * reached.report.elapsed_seconds);
    assert.match(await cell(page, "goodput", "target"), /^[\d:]+ \([\d.]+ %\)$/);
    await page.click("#left-out summary");
    assert.deepEqual(await page.locator("#left-out li").allTextContents(), ["notes has no cluster.toml"]);
    assert.deepEqual(problems, []);
  } finally {
    await close();
  }
});

test("compares chosen runs on one axis by keyboard, keeps the choice, and follows a live one", async () => {
  const { page, problems, close } = await openBrowser();
  try {
    await load(page, url);
    assert.equal(await page.isVisible("#charts"), false);
    for (const name of ["static", "goodput"]) {
      await box(page, name).focus();
      await page.keyboard.press("Space");
    }
    await page.waitForSelector("#charts:visible");
    assert.match(await page.textContent("#verdict"), /^goodput reached [\d.]+ % \d+\.\d\d times sooner than static\.$/);
    const keys = () => page.locator("#accuracy .legend button").allTextContents();
    await until("both in the legend", async () => (await keys()).join() === "static,goodput");
    await page.hover("#accuracy .u-over");
    assert.match(await page.textContent("#accuracy .readout"), /\d+:\d\d/);
    await page.focus('#axis input[value="elapsed_seconds"]');
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.evaluate(() => document.querySelector("#axis input:checked").value), "samples");
    assert.match(page.url(), /#compare=static,goodput$/);
    await page.reload();
    await until("the choice after a reload", async () => (await keys()).join() === "static,goodput");
    await page.click("#clear");
    await until("nothing chosen", async () => !(await page.isVisible("#charts")));
    await box(page, "live").focus();
    await page.keyboard.press("Space");
    const label = () => page.getAttribute("#throughput .plot", "aria-label");
    await until("the live run's chart", label);
    const windows = () => page.evaluate(() => fetch("/api/course?run=live").then((answer) => answer.json()).then((told) => told.windows));
    const before = await windows();
    await until("more windows of the live run", async () => (await windows()) > before);
    assert.deepEqual(problems, []);
  } finally {
    await close();
  }
});

test("sorts and finds by keyboard, and leads to a run's own page", async () => {
  const { page, problems, close } = await openBrowser();
  try {
    await load(page, url);
    const names = () => page.locator("#runs tbody td.run").allTextContents();
    await page.focus("#runs th.run button");
    await page.keyboard.press("Enter");
    assert.deepEqual(await names(), ["trained", "torn", "static", "live", "goodput"]);
    await page.keyboard.press("Enter");
    assert.equal((await names())[0], "goodput");
    await page.fill("#find", "train");
    assert.deepEqual(await names(), ["live", "trained"], "by name and by state");
    assert.match(await page.textContent("#runs-more"), /^2 of 5 runs$/);
    await rowOf(page, "live").locator("a").focus();
    await page.keyboard.press("Enter");
    await page.waitForSelector(".tile .value");
    assert.match(page.url(), /\?run=live$/);
    await until("the run's phase", async () => /^training for /.test(await page.textContent("#phase")));
    const step = () => page.locator(".tile", { has: page.getByText("step", { exact: true }) }).locator(".note").textContent();
    const first = await step();
    await until("a newer window on its page", async () => (await step()) !== first);
    await page.click("text=all runs");
    await page.waitForSelector("#runs tbody tr");
    assert.deepEqual(problems, []);
  } finally {
    await close();
  }
});

for (const [scheme, width, height] of [["light", 1400, 900], ["dark", 1400, 900], ["light", 400, 860], ["dark", 400, 860]])
  test(`looks whole, ${scheme}, ${width} px wide`, async () => {
    const { page, problems, close } = await openBrowser({ width, height, scheme });
    try {
      await load(page, url + "#compare=static,goodput,trained");
      await page.waitForSelector("#accuracy canvas");
      await page.waitForTimeout(600);
      await page.screenshot({ path: path.join(pictures, `runs-${scheme}-${width}.png`), fullPage: true });
      assert.deepEqual(await faults(page), []);
      if (width < 600) {
        const small = await page.evaluate(() => [...document.querySelectorAll("button, select, summary, #runs .pick label")]
          .filter((one) => one.offsetParent !== null && one.getBoundingClientRect().height < 44).map((one) => one.outerHTML.slice(0, 60)));
        assert.deepEqual(small, []);
      }
      assert.deepEqual(await barriers(page), []);
      assert.deepEqual(problems, []);
    } finally {
      await close();
    }
  });
