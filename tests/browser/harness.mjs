// What the browser tests share: processes of dynamix-node, a cluster file on free ports, Debian's Chromium.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";

const program = required("DYNAMIX_NODE_PROGRAM");
export const source = required("DYNAMIX_SOURCE_DIRECTORY");
/** Where the screenshots go. */
export const pictures = path.join(process.cwd(), "screenshots");
const patience = 60_000;

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; ctest sets it`);
  return value;
}

export function pause(milliseconds) {
  return new Promise((done) => setTimeout(done, milliseconds));
}

/** Looks every 50 ms until `look` gives something. */
export async function until(what, look, longest = patience) {
  for (const end = Date.now() + longest; Date.now() < end; await pause(50)) {
    const found = await look();
    if (found) return found;
  }
  throw new Error(`waited ${longest / 1000} s in vain for ${what}`);
}

export function temporaryDirectory() {
  return fs.mkdtempSync(path.join(os.tmpdir(), "dynamix-browser-"));
}

let port = 20_000 + (process.pid * 37) % 8_000;

/** Ports below those that the kernel gives away by itself; each once. */
export async function freePorts(count) {
  const found = [];
  while (found.length < count) {
    if (++port > 32_000) port = 20_000;
    const free = await new Promise((done) => {
      const listener = net.createServer().once("error", () => done(false));
      listener.listen(port, "127.0.0.1", () => listener.close(() => done(true)));
    });
    if (free) found.push(port);
  }
  return found;
}

const started = new Set();

/** A dynamix-node process; `said()` is its output so far. */
export function start(args, command = program) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  started.add(child);
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => { text += data; });
  const ended = new Promise((done) => child.on("close", (code) => { started.delete(child); done(code); }));
  return { child, said: () => text, ended,
    async stop(signal = "SIGINT") {
      child.kill(signal);
      return Promise.race([ended, pause(patience).then(() => { child.kill("SIGKILL"); return ended; })]);
    } };
}

process.on("exit", () => { for (const child of started) child.kill("SIGKILL"); });

/** Four unequal workers as in deployments/clusters/local-4.toml, on ports of its own and with the page at `page`. */
export async function writeCluster(directory, more = "") {
  const [page, ...ports] = await freePorts(6);
  const below = (name) => path.join(source, "deployments", name);
  const hosts = [["hub", 1], ["ada", 1], ["ben", 1], ["cy", 2], ["dot", 4]].map(([name, slower], i) =>
    `[[host]]\nname = "${name}"\nport = ${ports[i]}\n` +
    (name === "hub" ? 'roles = ["arbitrator"]\n' : `compute_slowdown = ${slower.toFixed(1)}\n`));
  const file = path.join(directory, "cluster.toml");
  fs.writeFileSync(file, `[cluster]
name = "browser"
[training]
epochs = 200
target_accuracy = 0.995
evaluate_every_epochs = 0.25
[batch]
initial = 64
lowest = 8
[arbitrator]
policy_file = "${below("policies/ppo.dynamix")}"
window_steps = 10
[dashboard]
listen = "127.0.0.1:${page}"
${more}
${hosts.join("")}`);
  return { file, url: `http://127.0.0.1:${page}/`, page };
}

/** A run directory of four unequal workers that have trained two epochs. */
export async function trainFour(directory) {
  const { file } = await writeCluster(directory);
  const run = path.join(directory, "four");
  const text = fs.readFileSync(file, "utf8").replace("epochs = 200", "epochs = 2");
  fs.writeFileSync(file, text);
  const local = start(["local", "--cluster", file, "--out", run, "--quiet"]);
  assert.equal(await local.ended, 0, local.said());
  return run;
}

/** 1,024 hosts of four generations in virtual time. */
export async function simulateMany(directory) {
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

/** The rows of a ledger that are whole. */
export function readLedger(run) {
  const text = fs.readFileSync(path.join(run, "windows.jsonl"), "utf8");
  return text.slice(0, text.lastIndexOf("\n") + 1).split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

/** The process that runs host `name` of the run in `directory`. */
export function processOf(name, directory) {
  for (const entry of fs.readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const words = fs.readFileSync(`/proc/${entry}/cmdline`, "utf8").split("\0");
      if (words.includes("--name") && words[words.indexOf("--name") + 1] === name && words.some((word) => word.startsWith(directory)))
        return Number(entry);
    } catch { // it has ended meanwhile
    }
  }
  return null;
}

/** A page in Chromium of its own profile; `problems` collects what the console and the page complain of. */
export async function openBrowser({ width = 1280, height = 900, scheme = "light", scale = 1 } = {}) {
  const { chromium } = await import("playwright-core");
  const profile = temporaryDirectory();
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: "/usr/bin/chromium", headless: true, viewport: { width, height }, colorScheme: scheme,
    deviceScaleFactor: scale,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync"] });
  const page = context.pages()[0] ?? await context.newPage();
  const problems = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) problems.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`uncaught: ${error.stack}`));
  return { page, problems, async close() {
    await context.close();
    fs.rmSync(profile, { recursive: true, force: true });
  } };
}

/** Goes there and waits until the charts are drawn. Gives the milliseconds since the navigation began. */
export async function load(page, url) {
  await page.goto(url);
  await page.waitForFunction(() => performance.getEntriesByName("drawn").length > 0, null, { timeout: patience });
  return page.evaluate(() => performance.getEntriesByName("drawn")[0].startTime);
}

/** What axe-core finds serious or critical (WCAG 2), with the folded parts open. */
export async function barriers(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
  await page.evaluate(fs.readFileSync(path.join(process.cwd(), "node_modules/axe-core/axe.min.js"), "utf8")); // whatever the page's policy
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 4).map(({ target }) => target.join(" ")).join("; ")}`);
}

/** What a reader would call broken. */
export function faults(page) {
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
