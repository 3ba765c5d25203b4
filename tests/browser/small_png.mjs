// A screenshot with a palette of at most 256 colours, which takes a quarter of the bytes: for pictures in the repository.

import fs from "node:fs";
import zlib from "node:zlib";

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const whole = Buffer.alloc(body.length + 8);
  whole.writeUInt32BE(data.length, 0);
  body.copy(whole, 4);
  whole.writeUInt32BE(crc(body), body.length + 4);
  return whole;
}

const crcTable = Array.from({ length: 256 }, (_, n) => {
  for (let i = 0; i < 8; ++i) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n >>> 0;
});

function crc(bytes) {
  let value = 0xffffffff;
  for (const byte of bytes) value = crcTable[(value ^ byte) & 255] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}

/** What lies behind each row's filter; Chromium writes 8 bits a channel, not interlaced. */
function pixelsOf(png) {
  const parts = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at))
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  const [width, height, channels] = [png.readUInt32BE(16), png.readUInt32BE(20), { 2: 3, 6: 4 }[png[25]]];
  if (!channels || png[24] !== 8 || png[28] !== 0) throw new Error("not a screenshot of Chromium's");
  const packed = zlib.inflateSync(Buffer.concat(parts));
  const stride = width * channels;
  const rows = Buffer.alloc(stride * height);
  for (let y = 0; y < height; ++y) {
    const filter = packed[y * (stride + 1)];
    for (let x = 0; x < stride; ++x) {
      const left = x >= channels ? rows[y * stride + x - channels] : 0;
      const up = y > 0 ? rows[(y - 1) * stride + x] : 0;
      const corner = x >= channels && y > 0 ? rows[(y - 1) * stride + x - channels] : 0;
      const [a, b, c] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
      const guess = [0, left, up, (left + up) >> 1, a <= b && a <= c ? left : b <= c ? up : corner][filter];
      rows[y * stride + x] = packed[y * (stride + 1) + 1 + x] + guess;
    }
  }
  return { width, height, channels, rows };
}

/** The colours that are there most often; others become the nearest of them. */
export function shrink(file) {
  const { width, height, channels, rows } = pixelsOf(fs.readFileSync(file));
  const counts = new Map();
  const colours = new Uint32Array(width * height);
  for (let i = 0; i < colours.length; ++i) {
    colours[i] = (rows[i * channels] << 16) | (rows[i * channels + 1] << 8) | rows[i * channels + 2];
    counts.set(colours[i], (counts.get(colours[i]) ?? 0) + 1);
  }
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256).map(([colour]) => colour);
  const parts = (colour) => [colour >> 16, (colour >> 8) & 255, colour & 255];
  const place = new Map(palette.map((colour, i) => [colour, i]));
  for (const colour of counts.keys()) {
    if (place.has(colour)) continue;
    const [red, green, blue] = parts(colour);
    let [best, least] = [0, Infinity];
    palette.forEach((other, i) => {
      const [r, g, b] = parts(other);
      const distance = (red - r) ** 2 + (green - g) ** 2 + (blue - b) ** 2;
      if (distance < least) [best, least] = [i, distance];
    });
    place.set(colour, best);
  }
  const indexed = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; ++y)
    for (let x = 0; x < width; ++x) indexed[y * (width + 1) + 1 + x] = place.get(colours[y * width + x]);
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  fs.writeFileSync(file, Buffer.concat([signature, chunk("IHDR", head), chunk("PLTE", Buffer.from(palette.flatMap(parts))),
    chunk("IDAT", zlib.deflateSync(indexed, { level: 9 })), chunk("IEND", Buffer.alloc(0))]));
}
