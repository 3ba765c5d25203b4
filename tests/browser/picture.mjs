// A picture of a page, as README's was made:
//   node build/release/tests/browser/picture.mjs http://127.0.0.1:8080/ docs/images/live-page.png [WIDTH HEIGHT light|dark]

import { chromium } from "playwright-core";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const [url, out, width = "1280", height = "1000", colorScheme = "light"] = process.argv.slice(2);
const profile = fs.mkdtempSync(path.join(os.tmpdir(), "dynamix-picture-"));
const context = await chromium.launchPersistentContext(profile, { executablePath: "/usr/bin/chromium", headless: true,
  viewport: { width: Number(width), height: Number(height) }, colorScheme,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"] });
const page = context.pages()[0] ?? await context.newPage();
await page.goto(url);
await page.waitForFunction(() => performance.getEntriesByName("drawn").length > 0);
await page.waitForTimeout(500);
await page.screenshot({ path: out });
await context.close();
fs.rmSync(profile, { recursive: true, force: true });
