// How the page looks: pictures for people, and what a program can see of them. 4 workers and 1,024, light and dark, wide
// and as wide as a phone.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";

import { freePorts, load, openBrowser, pictures, source, start, temporaryDirectory, until, writeCluster } from "./harness.mjs";

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

async function trainFour() {
  const { file } = await writeCluster(directory);
  const run = path.join(directory, "four");
  const text = fs.readFileSync(file, "utf8").replace("epochs = 200", "epochs = 2");
  fs.writeFileSync(file, text);
  const local = start(["local", "--cluster", file, "--out", run, "--quiet"]);
  assert.equal(await local.ended, 0, local.said());
  return run;
}

/** 1,024 hosts of four generations in virtual time. */
async function simulateMany() {
  const below = (name) => path.join(source, "deployments", name);
  const generations = ["v100", "a40", "p100", "rtx6000"];
  const hosts = generations.map((name, i) => `[[host]]\nname = "${name}"\nport = ${7501 + 256 * i}\ncount = 256\n` +
    `profile = "${below(`profiles/${name}-resnet50.toml`)}"\nbatch_highest = 128\n`);
  const file = path.join(directory, "many.toml");
  fs.writeFileSync(file, `[cluster]\nname = "swarm-1024"\n[training]\nlearning_rate = 0.05\nepochs = 2000\ntarget_accuracy = 0.3\n
[batch]\ninitial = 32\nlowest = 8\nhighest = 512\n[arbitrator]\npolicy = "goodput"\n
[simulation]\nworkload = "${below("workloads/cnn-imagenet.toml")}"\nbandwidth_mbit = 50000
slow_every_seconds = 120\nslow_seconds = 20\n
[[host]]\nname = "north"\nport = 7500\nroles = ["arbitrator"]\n${hosts.join("")}`);
  const run = path.join(directory, "many");
  const simulated = start(["simulate", "--cluster", file, "--out", run, "--quiet"]);
  assert.equal(await simulated.ended, 0, simulated.said());
  return run;
}

let urls;

before(async () => {
  fs.mkdirSync(pictures, { recursive: true });
  urls = { 4: await serve(await trainFour()), 1024: await serve(await simulateMany()) };
}, { timeout: 300_000 });

after(async () => {
  for (const server of served) await server.stop();
  fs.rmSync(directory, { recursive: true, force: true });
});

/** What a reader would call broken. */
function faults(page) {
  return page.evaluate(() => {
    const found = [];
    if (document.documentElement.scrollWidth > innerWidth) found.push("the page scrolls sideways");
    const visible = (one) => one.offsetParent !== null && getComputedStyle(one).visibility !== "hidden";
    for (const one of document.querySelectorAll(".tile .value, .tile .note, h1, h2, .pill, button, .legend *"))
      if (visible(one) && one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline")
        found.push(`cut off: ${one.className || one.tagName} "${one.textContent}"`);
    for (const canvas of document.querySelectorAll("canvas")) {
      if (!visible(canvas)) continue;
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const colours = new Set();
      for (let i = 0; i < data.length && colours.size < 3; i += 4) colours.add(data.slice(i, i + 4).join());
      if (colours.size < 3) found.push(`an empty canvas in ${canvas.closest("section")?.id}`);
    }
    // Contrast of text against its panel (WCAG 2.1, 4.5 for text of this size).
    const channels = (text) => text.match(/[\d.]+/g).map(Number);
    const luminance = (rgb) => rgb.slice(0, 3).map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (one) => {
      for (let at = one; at; at = at.parentElement) {
        const rgb = channels(getComputedStyle(at).backgroundColor);
        if (rgb.length < 4 || rgb[3] > 0.99) return rgb;
      }
      return [255, 255, 255];
    };
    for (const one of document.querySelectorAll("p, h1, h2, .name, .note, .value, td, th button, a, #axis span, .muted, li span")) {
      if (!visible(one) || !one.textContent.trim() || one.classList.contains("state")) continue;
      const [a, b] = [luminance(channels(getComputedStyle(one).color)), luminance(behind(one))].sort((x, y) => y - x);
      if ((a + 0.05) / (b + 0.05) < 4.5) found.push(`contrast ${((a + 0.05) / (b + 0.05)).toFixed(2)}: ${one.className || one.tagName} "${one.textContent.slice(0, 40)}"`);
    }
    for (const one of document.querySelectorAll("button, input, [role=img]"))
      if (visible(one) && !(one.getAttribute("aria-label") || one.textContent || one.labels?.length)) found.push(`without a name: ${one.outerHTML.slice(0, 80)}`);
    return [...new Set(found)].slice(0, 12);
  });
}

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
