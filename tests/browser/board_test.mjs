// A real Prometheus scrapes a run, and every query of the Grafana board finds data in it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";

import { freePorts, pause, source, start, temporaryDirectory, until, writeCluster } from "./harness.mjs";

const directory = temporaryDirectory();
let local;
let prometheus;
let cluster;
let api;

before(async () => {
  cluster = await writeCluster(directory);
  local = start(["local", "--cluster", cluster.file, "--out", path.join(directory, "run")]);
  const [port] = await freePorts(1);
  const config = path.join(directory, "prometheus.yml");
  const shipped = fs.readFileSync(path.join(source, "deployments/prometheus/prometheus.yml"), "utf8");
  fs.copyFileSync(path.join(source, "deployments/prometheus/dynamix.rules.yml"), path.join(directory, "dynamix.rules.yml"));
  fs.writeFileSync(config, shipped.replace("127.0.0.1:8080", `127.0.0.1:${cluster.page}`)
    .replace("scrape_interval: 5s", "scrape_interval: 1s").replace("evaluation_interval: 15s", "evaluation_interval: 2s"));
  prometheus = start([`--config.file=${config}`, `--storage.tsdb.path=${path.join(directory, "data")}`,
    `--web.listen-address=127.0.0.1:${port}`, "--log.level=warn"], "prometheus");
  api = `http://127.0.0.1:${port}/api/v1/`;
  await until("an evaluation and a policy update in Prometheus", async () => {
    if (local.child.exitCode !== null) throw new Error(local.said());
    const results = await Promise.all(["dynamix_test_loss", "dynamix_policy_kl_nats", "dynamix_windows_total > 30"].map(query));
    return results.every((one) => one.length > 0);
  }, 120_000);
  await pause(5000); // a few more scrapes, for the rates
}, { timeout: 200_000 });

after(async () => {
  await prometheus?.stop("SIGTERM");
  await local?.stop();
  fs.rmSync(directory, { recursive: true, force: true });
});

async function query(text) {
  const answer = await fetch(api + "query?query=" + encodeURIComponent(text)).then((one) => one.json()).catch(() => null);
  if (answer?.status === "error") throw new Error(`${text}: ${answer.error}`);
  return answer?.data.result ?? [];
}

test("promtool finds nothing wrong with the metrics, the rules and the configuration", async () => {
  const metrics = await fetch(cluster.url + "metrics").then((answer) => answer.text());
  const options = { stdio: ["pipe", "pipe", "pipe"], encoding: "utf8" };
  execFileSync("promtool", ["check", "metrics"], { ...options, input: metrics });
  const shipped = path.join(source, "deployments/prometheus");
  execFileSync("promtool", ["check", "config", path.join(shipped, "prometheus.yml")], options);
  execFileSync("promtool", ["test", "rules", "dynamix.rules.test.yml"], { ...options, cwd: shipped });
});

test("every query of the board returns data", async () => {
  const board = JSON.parse(fs.readFileSync(path.join(source, "deployments/grafana/dynamix.json"), "utf8"));
  const filled = (text) => text.replaceAll("$instance", `127.0.0.1:${cluster.page}`).replaceAll("$worker", ".*");
  const queries = board.panels.flatMap((panel) => (panel.targets ?? []).map((target) => [panel.title, filled(target.expr)]));
  assert.ok(queries.length > 30);
  const empty = [];
  for (const [title, text] of queries) if ((await query(text)).length === 0) empty.push(`${title}: ${text}`);
  assert.deepEqual(empty, []);
  for (const { query: { query: text } } of board.templating.list.filter((one) => one.type === "query")) {
    const [, metric, label] = /^label_values\((.+), (\w+)\)$/.exec(filled(text));
    assert.ok((await query(metric)).every((one) => one.metric[label]), text);
  }
  for (const { expr } of board.annotations.list) await query(filled(expr)); // valid; it may be quiet
});

test("the alert rules are in force, and quiet on a healthy run", async () => {
  const { data } = await fetch(api + "rules").then((answer) => answer.json());
  const rules = data.groups.flatMap((group) => group.rules);
  assert.ok(rules.length >= 9);
  assert.deepEqual(rules.filter((rule) => rule.health === "err").map((rule) => rule.lastError), []);
  assert.deepEqual(rules.filter((rule) => rule.state === "firing").map((rule) => rule.name), []);
});
