// Formats of numbers, sizes and long names.
const FONT = "system-ui, 'DejaVu Sans', sans-serif";

function formatMs(ms) {
  if (ms === 0) return "0 ms";
  return Math.abs(ms) < 0.01 ? `${formatNumber(ms * 1000, 4)} µs` : `${formatNumber(ms, 4)} ms`;
}

function formatNumber(value, digits = 3) {
  return Math.abs(value) >= 10 ** digits ? d3.format(",.0f")(value) : d3.format(`.${digits}r`)(value);
}

function formatCount(count, word) {
  return `${d3.format(",")(count)} ${word}${count === 1 ? "" : "s"}`;
}

function formatBytes(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const power = bytes >= 1e9 ? 3 : bytes >= 1e6 ? 2 : 1;
  return `${formatNumber(bytes / 1000 ** power)} ${["B", "kB", "MB", "GB"][power]}`;
}

// The end of a name that is too long: its end distinguishes it from others.
function fitText(context, text, width) {
  const whole = context.measureText(text).width;
  if (whole <= width) return text;
  let kept = Math.max(0, Math.floor((text.length * width) / whole) - 1);
  while (kept > 0 && context.measureText(`…${text.slice(-kept)}`).width > width) kept -= 1;
  return kept > 0 ? `…${text.slice(-kept)}` : "";
}

// The beginning of a type that is too long.
function fitStart(context, text, width) {
  const whole = context.measureText(text).width;
  if (whole <= width) return text;
  const kept = Math.floor((text.length * width) / whole) - 1;
  return kept > 1 ? `${text.slice(0, kept)}…` : "";
}

// The last letters of a name.
function shorten(name, length) {
  return name.length <= length ? name : `…\u2060${name.slice(1 - length)}`;
}

// A name that may break after each slash.
function breakAtSlashes(name) {
  return name.replaceAll("/", "/\u200b");
}
