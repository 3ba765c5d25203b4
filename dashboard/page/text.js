// Numbers as people read them.

export function grouped(number) {
  return Math.round(number).toLocaleString("en");
}

/** Three significant digits with k, M, G: 12.3k. */
export function short(number) {
  if (number === null || !Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (size >= limit) return trimmed(number / limit) + unit;
  return trimmed(number);
}

/** A number and what it lies between by one standard error of its natural logarithm, where that is known. */
export function withError(number, error) {
  return number === null || error === null ? short(number)
    : `${short(number)} (${short(number / Math.exp(error))} to ${short(number * Math.exp(error))})`;
}

function trimmed(number) {
  const size = Math.abs(number);
  if (size > 0 && size < 0.001) return number.toExponential(1).replace("e-", "e−");
  const text = size >= 1 || size === 0 ? number.toFixed(size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2) : number.toPrecision(3);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

export function percent(share, digits = 1) {
  return share === null || !Number.isFinite(share) ? "–" : (100 * share).toFixed(digits) + " %";
}

/** As many decimals as it needs, at most one. */
export function roundPercent(share) {
  return percent(share, Number.isInteger(Math.round(share * 1e4) / 100) ? 0 : 1);
}

/** 0:42, 12:05, 3:04:05 */
export function clock(seconds) {
  if (seconds === null || !Number.isFinite(seconds)) return "–";
  const whole = Math.max(0, Math.round(seconds));
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const text = parts.map((part, i) => (i === 0 ? String(part) : String(part).padStart(2, "0")));
  return parts[0] > 0 ? text.join(":") : String(parts[1]) + ":" + text[2];
}

/** Seconds as ms or s. */
export function span(seconds) {
  if (seconds === null || !Number.isFinite(seconds)) return "–";
  return seconds < 0.9995 ? trimmed(1000 * seconds) + " ms" : trimmed(seconds) + " s";
}

export function fixed(number, digits) {
  return number === null || !Number.isFinite(number) ? "–" : number.toFixed(digits);
}

/** An element with a class, a text, and children. */
export function element(tag, name = "", ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
}

/** A word of the glossary, which explains it on hover and on focus. */
export function term(name, meaning) {
  const made = element("span", "term", name);
  made.tabIndex = 0;
  made.dataset.tip = meaning;
  made.setAttribute("aria-label", `${name}: ${meaning}`);
  return made;
}

/** Sets a text only where it changes, so that nothing is laid out for nothing. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
