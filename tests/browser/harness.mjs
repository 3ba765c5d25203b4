// What the browser tests share: processes of dynamix-node, a cluster file on free ports, Debian's Chromium.

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
