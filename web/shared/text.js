// Figures and text of unknown origin, as people read them. Pure.

export const isNumber = value => typeof value === "number" && Number.isFinite(value);

// One line, with controls and marks that turn the direction of text replaced, and no longer than `most` characters.
export function shown(text, most = 600) {
  const source = String(text ?? "");
  const characters = [...source.slice(0, 2 * most)];
  const cut = characters.length > most || source.length > 2 * most;
  const line = (cut ? characters.slice(0, most - 1).join("") + "…" : source).replace(/[\t-\r\u2028\u2029]/g, " ");
  return harmless(line);
}

// The same for text of several lines.
export const harmless = text =>
  String(text ?? "").replace(/[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, "\ufffd");

export const grouped = value => isNumber(value) ? value.toLocaleString("en-US") : "–";

export const plural = (count, noun, nouns = `${noun}s`) => `${grouped(count)} ${count === 1 ? noun : nouns}`;

export function fixed(value, digits) {
  if (!isNumber(value)) return "n/a";
  return Math.abs(value) < 1e12 ? value.toFixed(digits) : value.toExponential(3);
}

// About four digits, for figures of any size.
export function measured(value) {
  const size = Math.abs(value);
  if (isNumber(value) && size !== 0 && size < 0.01) return String(Number(value.toPrecision(3)));
  return fixed(value, size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0);
}

// Three digits and a letter: 950, 12.3k, 4.56M.
export function compact(value) {
  if (!isNumber(value)) return "–";
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= unit * 0.9995) return `${Number((value / unit).toPrecision(3))}${letter}`;
  }
  return String(Math.round(value));
}

export function bytes(value) {
  if (!isNumber(value)) return "–";
  for (const [unit, name] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (value >= unit * 0.9995) return `${Number((value / unit).toPrecision(3))} ${name}`;
  }
  return `${Math.round(value)} B`;
}

// A length of time: "85 ms", "1.24 s", "4 min 12 s", "3 h 10 min", "2 d 4 h".
export function duration(seconds) {
  if (!isNumber(seconds)) return "–";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 99.95) return `${Number(seconds.toPrecision(3))} s`;
  const units = [[86_400, "d", 3_600, "h"], [3_600, "h", 60, "min"], [60, "min", 1, "s"]];
  // Rounded before the unit is chosen: 59.7 min are an hour.
  const [unit, name, small, smallName] = units.find(([size, , next]) => Math.round(seconds / next) * next >= size);
  const rounded = Math.round(seconds / small), whole = Math.floor(rounded * small / unit), rest = rounded - whole * unit / small;
  return rest === 0 ? `${whole} ${name}` : `${whole} ${name} ${rest} ${smallName}`;
}

// How long ago, coarsely: the figure is read at a glance and changes seldom.
export function ago(seconds) {
  if (!isNumber(seconds)) return "–";
  if (seconds < 5) return "now";
  for (const [unit, name] of [[86_400, "d"], [3_600, "h"], [60, "min"]]) {
    if (seconds >= unit) return `${Math.floor(seconds / unit)} ${name} ago`;
  }
  return `${Math.floor(seconds / 5) * 5} s ago`;
}

export const percent = (part, whole) => whole > 0 ? `${Number((100 * part / whole).toPrecision(3))} %` : "–";
