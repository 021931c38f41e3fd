"use strict";
/* Elements, numbers as text, and files to download. Text of the user is only ever set as text, never as HTML. */
const R = JSON.parse(document.getElementById("content").textContent);

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
const sum = (values) => values.reduce((total, value) => total + value, 0);
const range = (n) => Array.from({ length: n }, (_, i) => i);
const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
const percent = (value, digits = 0) => known(value) ? `${(100 * value).toFixed(digits)}%` : "–";

/* A number to some digits, with a minus sign and separators of thousands. */
function text(value, digits = 3) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(1).replace("-", "−").replace("e+", "e");
  const decimals = size === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en", { maximumFractionDigits: Math.min(decimals, 8) }).replace("-", "−");
}
/* How to write these numbers with as many decimals as give the middle one some digits, so that they line up. */
function evenly(values, digits = 3) {
  const sizes = values.filter((value) => known(value) && value !== 0).map(Math.abs).sort((a, b) => a - b),
    middle = sizes[sizes.length >> 1];
  if (!(middle >= 1e-4 && middle < 1e9)) return (value) => text(value);
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(middle))),
    form = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return (value) =>
    known(value) ? value.toLocaleString("en", form).replace(/^-/, "−").replace(/^−(?=[0.]*$)/, "") : "–";
}
/* Some digits, zeros included. */
const figure = (value, digits) => evenly([value], digits)(value);
/* A score, always with three decimals. What rounds to zero has no sign. */
const score = (value) => known(value) ? value.toFixed(3).replace(/^-(?=[0.]*$)/, "").replace("-", "−") : "–";
/* Four digits, and no powers of ten, in the language of Vega-Lite. */
const DIGITS = ",.4~r";
/* Minus signs in place of the hyphens of numbers, and no sign of what rounds to zero. */
const minus = (words) => words.replace(/(?<= )[+-](?=0\.0+(?!\d))/g, "").replace(/(?<= )-(?=\d)/g, "−");
/* RMSE is in the units of the target, with four digits to compare models by; the accuracy is a percentage. */
const scoreText = (name) => (value) =>
  name === "RMSE" ? figure(value, 4) : name === "accuracy" ? percent(value, 1) : score(value);
const signed = (value) => (value > 0 && /[1-9]/.test(score(value)) ? "+" : "") + score(value);
const interval = (low, high, form = score) => `${form(low)} to ${form(high)}`;

function download(name, content, type) {
  const link = make("a", {
    download: name,
    href: content.startsWith("data:") ? content : `data:${type};charset=utf-8,${encodeURIComponent(content)}`,
  });
  document.body.append(link);
  link.click();
  link.remove();
}

/* Cells that a spreadsheet would run as a formula are written as text. */
function cell(value) {
  let found = value === null || value === undefined ? "" : String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(found)) found = `'${found}`;
  return /[",\n\r]/.test(found) ? `"${found.replaceAll('"', '""')}"` : found;
}

/* Records (objects with the same keys) as CSV. */
function csv(records) {
  const names = Object.keys(records[0] || {});
  return [names, ...records.map((record) => names.map((name) => record[name]))].map((row) => row.map(cell).join(","))
    .join("\r\n") + "\r\n";
}

const fileName = (words) => words.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "report";
