// What is drawn on a canvas as a PNG file: wide enough for print, with its title and its legend above it.

import { element } from "/text.js";

export const pictureWidth = 720; // in the page's units
export const pictureDensity = 2; // pixels for each of them

export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

/** A button that saves what `draw` gives: {canvas, keys: [{name, hue, dash, fill}], heading where it is not `title`}. */
export function saveButton(title, draw) {
  const button = element("button", "save", "PNG");
  button.type = "button";
  button.title = "Save as a PNG file";
  button.setAttribute("aria-label", `Save “${title}” as a PNG file`);
  button.addEventListener("click", async () => {
    const { canvas, keys, heading = title } = await draw();
    const blob = await new Promise((done) => framed(heading, keys, canvas).toBlob(done, "image/png"));
    const link = element("a");
    link.href = URL.createObjectURL(blob);
    link.download = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") + ".png";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  });
  return button;
}

function framed(title, keys, drawn) {
  const unit = drawn.width / pictureWidth;
  const font = (size, weight = 400) => `${weight} ${size * unit}px system-ui, sans-serif`;
  const rows = lineUp(keys, font(11), unit);
  const top = (34 + 18 * rows.length) * unit;
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: drawn.width, height: drawn.height + top + 8 * unit });
  const context = canvas.getContext("2d");
  context.fillStyle = color("panel");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.textBaseline = "middle";
  context.fillStyle = color("text");
  context.font = font(14, 600);
  context.fillText(title, 14 * unit, 19 * unit);
  context.font = font(11);
  rows.forEach((row, i) => row.forEach(({ key, x }) => drawKey(context, key, x, (38 + 18 * i) * unit, unit)));
  context.drawImage(drawn, 0, top);
  return canvas;
}

/** The keys of a legend in as many rows as they need. */
function lineUp(keys, font, unit) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = font;
  const rows = [];
  let x = Infinity;
  for (const key of keys) {
    const width = context.measureText(key.name).width + 40 * unit;
    if (x + width > (pictureWidth - 14) * unit) {
      rows.push([]);
      x = 14 * unit;
    }
    rows[rows.length - 1].push({ key, x });
    x += width;
  }
  return rows;
}

function drawKey(context, { name, hue, dash, fill }, x, y, unit) {
  context.fillStyle = context.strokeStyle = color(hue);
  if (fill) {
    context.fillRect(x, y - 5 * unit, 18 * unit, 10 * unit);
  } else {
    context.lineWidth = 2.5 * unit;
    context.setLineDash((dash ?? []).map((length) => length * unit));
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + 18 * unit, y);
    context.stroke();
    context.setLineDash([]);
  }
  context.fillStyle = color("text");
  context.fillText(name, x + 24 * unit, y);
}
