// How the page looks: pictures for people, and what a program can see of them. 4 workers and 1,024, light and dark, wide
// and as wide as a phone.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";

import { barriers, faults, freePorts, load, openBrowser, pictures, simulateMany, start, temporaryDirectory, trainFour, until } from "./harness.mjs";

const directory = temporaryDirectory();
const served = [];

/** A finished run behind its page. */
async function serve(run) {
  const [port] = await freePorts(1);
  const server = start(["dashboard", "--run", run, "--listen", `127.0.0.1:${port}`]);
  const url = `http://127.0.0.1:${port}/`;
  served.push(server);
  await until(`the page of ${run}`, () => fetch(url + "api/state?history=0").then((answer) => answer.json())
    .then((state) => state.now.windows > 0 && state.remaining_bytes === 0).catch(() => false));
  return url;
}

let urls;

before(async () => {
  fs.mkdirSync(pictures, { recursive: true });
  urls = { 4: await serve(await trainFour(directory)), 1024: await serve(await simulateMany(directory)) };
}, { timeout: 300_000 });

after(async () => {
  for (const server of served) await server.stop();
  fs.rmSync(directory, { recursive: true, force: true });
});

for (const workers of [4, 1024])
  for (const [scheme, width, height] of [["light", 1280, 900], ["dark", 1280, 900], ["light", 390, 844], ["dark", 360, 740]])
    test(`${workers} workers, ${scheme}, ${width} px wide`, async () => {
      const browser = await openBrowser({ width, height, scheme });
      try {
        await load(browser.page, urls[workers]);
        await browser.page.waitForTimeout(600);
        await browser.page.screenshot({ path: path.join(pictures, `${workers}-${scheme}-${width}.png`), fullPage: true });
        assert.deepEqual(await faults(browser.page), []);
        assert.equal(await browser.page.locator(".heat canvas").count() > 0, workers > 16, "a heat map for many, lines for few");
        assert.deepEqual(await barriers(browser.page), []);
        assert.deepEqual(browser.problems, []);
      } finally {
        await browser.close();
      }
    });

test("explains its words by keyboard, and keeps the charts where they are", async () => {
  const browser = await openBrowser();
  try {
    const { page } = browser;
    await load(page, urls[4]);
    assert.match(await page.textContent("#headline .gain"), /^(\d+(\.\d)? times the|About as many) samples per second /);
    assert.match(await page.textContent("#headline .because"), /^\w+ computes \d+\.\d times slower than \w+, and gets \d+ of \d+ samples/);
    await page.focus(".tile .term");
    const shown = await page.evaluate(() => getComputedStyle(document.activeElement, "::after").content);
    assert.match(shown, /samples of one step/);
    assert.equal(await page.locator("#policy-details[open]").count(), 0, "the policy's details are folded");
    await page.focus("#policy-details summary");
    await page.keyboard.press("Enter");
    assert.equal(await page.locator("#policy-details[open]").count(), 1);
    const top = () => page.evaluate(() => document.querySelector("#batch .plot").getBoundingClientRect().top + scrollY);
    const before = await top();
    await page.hover("#accuracy .u-over");
    assert.notEqual(await page.textContent("#accuracy .readout"), "");
    assert.equal(await top(), before, "a readout moves no chart");
    const labels = await page.evaluate(() => document.querySelector("#batch .plot").getAttribute("aria-label"));
    assert.match(labels, /Batch size of each worker/);
    await page.selectOption("#event-kind", "telemetry");
    const kinds = await page.locator("#events li span:nth-child(2)").allTextContents();
    assert.deepEqual([...new Set(kinds)], ["telemetry"]);
    assert.equal(await page.textContent("#workers-title"), "Workers, means over the run", "the run has ended");
    const { per_worker: workers } = JSON.parse(fs.readFileSync(path.join(directory, "four", "summary.json"), "utf8"));
    assert.deepEqual(await page.locator("#workers tbody td:nth-child(2)").allTextContents(), workers.map((one) => one.mean_batch.toFixed(1)));
    assert.deepEqual(browser.problems, []);
  } finally {
    await browser.close();
  }
});

test("a point of the batch chart opens its explain, by mouse and by keyboard", async () => {
  const browser = await openBrowser();
  try {
    const { page } = browser;
    await load(page, urls[4]);
    const said = () => page.textContent("dialog .told");
    await page.click("#batch .u-over");
    await until("the explanation", async () => /gets \d+ of \d+ samples/.test(await said()));
    assert.match(await page.textContent("dialog h2"), /^Window \d+, which ended at \d+:\d\d$/);
    assert.match(await said(), /ada[^]*dot/);
    await page.keyboard.press("Escape");
    assert.equal(await page.isVisible("dialog"), false);
    await page.focus("#batch .plot");
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    const windows = await page.evaluate(() => fetch("/api/state?history=0").then((answer) => answer.json()).then(({ now }) => now.windows));
    await until("the newest window", async () => Number(/^Window (\d+)/.exec(await page.textContent("dialog h2"))?.[1]) > 0.9 * windows);
    assert.deepEqual(await barriers(page), []);
    assert.deepEqual(browser.problems, []);
  } finally {
    await browser.close();
  }
});

test("has buttons that a finger hits", async () => {
  const browser = await openBrowser({ width: 390, height: 844 });
  try {
    await load(browser.page, urls[4]);
    const small = await browser.page.evaluate(() => [...document.querySelectorAll("button, select, summary")]
      .filter((one) => one.offsetParent !== null && one.getBoundingClientRect().height < 44).map((one) => one.outerHTML.slice(0, 60)));
    assert.deepEqual(small, []);
  } finally {
    await browser.close();
  }
});

test("the heat map and the table answer the keyboard", async () => {
  const browser = await openBrowser();
  try {
    const { page } = browser;
    await load(page, urls[1024]);
    await page.focus(".heat canvas");
    await page.keyboard.press("ArrowDown");
    const read = () => page.textContent("#batch .readout");
    assert.match(await read(), /^v100-?-2 · \d+:\d\d · batch size \d+$/);
    await page.focus('input[value="work_seconds"]');
    await page.keyboard.press("Space");
    await page.fill("#find", "rtx6000");
    assert.equal(await page.locator("#workers tbody tr").count(), 32);
    assert.match(await page.textContent("#workers-more"), /32 of 256 workers/);
    await page.focus("#workers th:nth-child(2) button");
    await page.keyboard.press("Enter");
    assert.equal(await page.getAttribute("#workers th:nth-child(2)", "aria-sort"), "descending");
    assert.deepEqual(browser.problems, []);
  } finally {
    await browser.close();
  }
});
