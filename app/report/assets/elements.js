// Elements with text. Text is set, never parsed, so that no name of a model becomes markup.
const element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== undefined && child !== ""));
  return made;
};

const byId = (id) => document.getElementById(id);

// Invisible characters, written as codes; characters that turn the direction of text are among them.
const visible = (text) =>
  text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`);

const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

const UNITS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

const duration = (seconds) => {
  if (seconds === 0) return "0";
  const [factor, unit] = UNITS.find(([factor]) => Math.abs(seconds) >= factor) ?? UNITS.at(-1);
  return `${Number((seconds / factor).toPrecision(3))} ${unit}`;
};

const bytes = (count) => {
  const units = ["bytes", "kB", "MB", "GB"];
  const step = Math.min(Math.floor(Math.log10(Math.max(count, 1)) / 3), 3);
  return `${Number((count / 1000 ** step).toPrecision(3))} ${units[step]}`;
};
