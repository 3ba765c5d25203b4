// The pictures in docs/images, but for those that are drawn from figures: the page of a run, the list of runs with some
// compared, and the page of a comparison, at 1400 and 400 pixels, light and dark. In the directory of the browser tests, after `ctest -R browser_packages`:
//   DYNAMIX_NODE_PROGRAM=.../dynamix-node DYNAMIX_SOURCE_DIRECTORY=... node screenshots.mjs docs/images [RUN]
// RUN: a finished run; without it the four workers of the browser tests train one.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { freePorts, load, openBrowser, source, start, temporaryDirectory, trainFour, until } from "./harness.mjs";
import { shrink } from "./small_png.mjs";

const [out, given] = process.argv.slice(2).map((name) => path.resolve(name));
const directory = temporaryDirectory();
fs.symlinkSync(path.join(source, "deployments"), path.join(directory, "deployments"));
process.chdir(directory); // pages show paths as they were given: not this machine's
const scenario = "deployments/scenarios/test/straggler-12.toml";

async function shoot(name, url) {
  for (const [width, height, scheme] of [[1400, 1000, "light"], [1400, 1000, "dark"], [400, 860, "light"], [400, 860, "dark"]]) {
    const browser = await openBrowser({ width, height, scheme });
    try {
      await load(browser.page, url);
      await browser.page.waitForTimeout(600);
      const file = path.join(out, `${name}-${width}-${scheme}.png`);
      await browser.page.screenshot({ path: file });
      shrink(file);
    } finally {
      await browser.close();
    }
  }
}

const run = given ?? await trainFour(directory);
const [port] = await freePorts(1);
const server = start(["dashboard", "--run", run, "--listen", `127.0.0.1:${port}`]);
const url = `http://127.0.0.1:${port}/`;
await until("the page", () => fetch(url + "api/state?history=0").then((answer) => answer.json())
  .then((state) => state.now.windows > 0 && state.remaining_bytes === 0).catch(() => false));
await shoot("page", url);
fs.copyFileSync(path.join(out, "page-1400-light.png"), path.join(out, "live-page.png"));
await server.stop();

const runs = "runs";
fs.cpSync(run, path.join(runs, "four-ppo"), { recursive: true });
for (const policy of ["static", "lb-bsp", "goodput", "ppo"]) {
  const simulated = start(["simulate", "--cluster", scenario, "--policy", policy, "--out", path.join(runs, `straggler-12-${policy}`), "--quiet"]);
  assert.equal(await simulated.ended, 0, simulated.said());
}
const [listPort] = await freePorts(1);
const list = start(["dashboard", "--runs", runs, "--listen", `127.0.0.1:${listPort}`]);
const listUrl = `http://127.0.0.1:${listPort}/`;
await until("the list", () => fetch(listUrl + "api/runs").then((answer) => answer.json())
  .then((told) => told.runs.length === 5 && told.runs.every(({ state }) => state !== "unread")).catch(() => false));
await shoot("runs", listUrl + "#compare=straggler-12-static,straggler-12-goodput,straggler-12-ppo");
await list.stop();

const compared = "compared";
const comparison = start(["compare", "--simulate", "--cluster", scenario, "--policies", "static,lb-bsp,goodput,ppo", "--seeds", "2", "--out", compared, "--quiet"]);
assert.equal(await comparison.ended, 0, comparison.said());
await shoot("compare", pathToFileURL(path.join(compared, "report.html")).href);
fs.rmSync(directory, { recursive: true, force: true });
