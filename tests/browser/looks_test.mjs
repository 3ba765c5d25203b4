// How the page looks: pictures for people, and what a program can see of them. 4 workers and 1,024, light and dark, wide
// and as wide as a phone.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";

import { faults, freePorts, load, openBrowser, pictures, simulateMany, start, temporaryDirectory, trainFour, until } from "./harness.mjs";

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
        assert.deepEqual(browser.problems, []);
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
