// Reports as a reader opens them: one file from disk, without a server. Of a run and of a comparison; every chart saves as
// a picture.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { barriers, faults, load, openBrowser, pictures, simulateMany, source, start, temporaryDirectory, trainFour } from "./harness.mjs";

const directory = temporaryDirectory();
const reports = {};

before(async () => {
  fs.mkdirSync(pictures, { recursive: true });
  reports[4] = path.join(await trainFour(directory), "report.html");
  reports[1024] = path.join(await simulateMany(directory), "report.html");
  const out = path.join(directory, "compared");
  const compared = start(["compare", "--simulate", "--cluster", path.join(source, "deployments/scenarios/test/straggler-12.toml"),
    "--policies", "static,lb-bsp,goodput,ppo", "--seeds", "2", "--out", out, "--quiet"]);
  assert.equal(await compared.ended, 0, compared.said());
  reports.compared = path.join(out, "report.html");
}, { timeout: 400_000 });

after(() => fs.rmSync(directory, { recursive: true, force: true }));

async function open(name, options) {
  const browser = await openBrowser(options);
  const asked = [];
  browser.page.on("request", (request) => asked.push(request.url()));
  await load(browser.page, pathToFileURL(reports[name]).href);
  browser.elsewhere = () => asked.filter((url) => !url.startsWith("file:") && !url.startsWith("data:") && !url.startsWith("blob:"));
  return browser;
}

for (const name of [4, 1024, "compared"])
  for (const [scheme, width, height] of [["light", 1280, 900], ["dark", 1280, 900], ["light", 390, 844], ["dark", 360, 740]])
    test(`report ${name}, ${scheme}, ${width} px wide`, async () => {
      const browser = await open(name, { width, height, scheme });
      try {
        await browser.page.waitForTimeout(600);
        await browser.page.screenshot({ path: path.join(pictures, `report-${name}-${scheme}-${width}.png`), fullPage: true });
        assert.deepEqual(await faults(browser.page), []);
        assert.deepEqual(browser.problems, []);
        assert.deepEqual(browser.elsewhere(), [], "it asks nobody");
        assert.deepEqual(await barriers(browser.page), []);
      } finally {
        await browser.close();
      }
    });

test("a report's figures are the summary's", async () => {
  const summary = JSON.parse(fs.readFileSync(path.join(path.dirname(reports[4]), "summary.json"), "utf8"));
  const { page, close } = await open(4);
  try {
    const tile = (name) => page.locator(".tile", { has: page.getByText(name, { exact: true }) });
    assert.equal(await tile("test accuracy").locator(".value").textContent(), (100 * summary.final_accuracy).toFixed(2) + " %");
    assert.equal(await tile("guard").locator(".note").textContent(), `of ${summary.decisions.windows} windows`);
    assert.match(await page.textContent("#phase"), /^ended: /);
    const rows = await page.locator("#workers tbody tr").evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
    assert.deepEqual(rows.map((row) => row[1]), summary.per_worker.map((one) => one.mean_batch.toFixed(1)));
    assert.deepEqual(rows.map((row) => row[2]), summary.per_worker.map((one) => `${one.first_batch} → ${one.last_batch}`));
    assert.deepEqual(await page.locator("#warnings li").allTextContents(), summary.warnings);
  } finally {
    await close();
  }
});

test("a report of a run that has not ended says as of when", async () => {
  const run = path.join(directory, "begun");
  fs.cpSync(path.dirname(reports[4]), run, { recursive: true });
  fs.rmSync(path.join(run, "workers"), { recursive: true });
  const ledger = path.join(run, "windows.jsonl");
  const lines = fs.readFileSync(ledger, "utf8").split("\n");
  fs.writeFileSync(ledger, lines.filter((line) => line && JSON.parse(line).kind !== "farewell").join("\n") + "\n");
  const made = start(["report", "--run", run]);
  assert.equal(await made.ended, 0, made.said());
  reports.begun = path.join(run, "report.html");
  const { page, problems, close } = await open("begun");
  try {
    assert.match(await page.textContent("#phase"), /^as of \d+:\d\d: no worker/);
    assert.equal(await page.getAttribute("#phase", "data-phase"), "training");
    assert.deepEqual(problems, []);
  } finally {
    await close();
  }
});

test("a report switches its axis and its colours, and its table sorts, by keyboard", async () => {
  const { page, problems, close } = await open(4);
  try {
    await page.focus('#axis input[value="elapsed_seconds"]');
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.evaluate(() => document.querySelector("#axis input:checked").value), "samples");
    const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await back();
    await page.focus("#theme");
    await page.keyboard.press("Enter");
    assert.notEqual(await back(), light);
    await page.focus("#workers th:nth-child(2) button");
    await page.keyboard.press("Enter");
    assert.equal(await page.getAttribute("#workers th:nth-child(2)", "aria-sort"), "descending");
    assert.deepEqual(problems, []);
  } finally {
    await close();
  }
});

test("a point of a report's batch chart says which command explains it, and that command works", async () => {
  const { page, problems, close } = await open(4);
  try {
    await page.focus("#batch .plot");
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    const said = await page.textContent("dialog .told");
    const [, window] = /^ *dynamix-node explain --run RUN --window (\d+)$/m.exec(said);
    const explained = start(["explain", "--run", path.dirname(reports[4]), "--window", window]);
    assert.equal(await explained.ended, 0, explained.said());
    assert.deepEqual(problems, []);
  } finally {
    await close();
  }
});

test("a comparison says in words who was first", async () => {
  const { page, close } = await open("compared");
  try {
    assert.match(await page.textContent(".part p"), /^[\w-]+ reached [\d.]+ % \d+\.\d\d times sooner than .*intervals/);
  } finally {
    await close();
  }
});

for (const [name, charts] of [[4, 8], [1024, 7], ["compared", 14]])
  test(`every chart of report ${name} saves as a picture`, async () => {
    const { page, problems, close } = await open(name, { width: 390 }); // as wide on a phone as on a desk
    try {
      await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
      const buttons = page.locator("button.save:visible");
      const count = await buttons.count();
      assert.equal(count, charts);
      const names = new Set();
      for (let i = 0; i < count; ++i) {
        const downloading = page.waitForEvent("download");
        await buttons.nth(i).focus();
        await page.keyboard.press("Enter");
        const download = await downloading;
        const file = path.join(pictures, `chart-${name}-${download.suggestedFilename()}`);
        names.add(file);
        await download.saveAs(file);
        const bytes = fs.readFileSync(file);
        assert.equal(bytes.subarray(0, 8).toString("latin1"), "\x89PNG\r\n\x1a\n");
        assert.equal(bytes.readUInt32BE(16), 1440, `${file}: its width`);
        assert.ok(bytes.readUInt32BE(20) > 150 && bytes.readUInt32BE(20) < 1440, `${file}: its height`);
        assert.ok(bytes.length > 4000, `${file} holds more than a white page`);
      }
      assert.equal(names.size, count, "each has a name of its own");
      if (name === 1024) assert.ok([...names].some((file) => file.endsWith("every-worker-over-time.png")), "the heat map too");
      assert.deepEqual(problems, []);
    } finally {
      await close();
    }
  });
