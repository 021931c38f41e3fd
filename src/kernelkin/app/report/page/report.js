"use strict";
// Draws the report from the JSON beside it. All text goes in as text, never as HTML.
const R = JSON.parse(document.getElementById("content").textContent);
const T = R.tasks.length;
const page = document.getElementById("page"), tip = document.getElementById("tip");
const state = { query: "", sort: null, down: true, chosen: null, redraw: [] };
const SHADES = ["#08306b", "#e69f00", "#009e73", "#56b4e9", "#d55e00"], OWN = "#d9d9d9";
// Lightness decreases throughout, so that the order of values is visible without colour.
const RAMP = [[255, 255, 225], [199, 233, 180], [65, 182, 196], [34, 94, 168], [8, 29, 88]];

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) element.append(child);
  return element;
}
const number = (value, digits = 3) => (value === null || value === undefined ? "–" : value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1"));
const percent = value => (value === null || value === undefined ? "–" : Math.round(100 * value) + "%");
const small = value => (value === null ? "–" : value === 0 ? "0" : value.toExponential(1));
const plural = (n, word) => n.toLocaleString("en") + " " + word + (n === 1 ? "" : "s");
const listed = values => values.filter(value => value !== null && value !== undefined);
const mean = values => { const v = listed(values); return v.length ? v.reduce((a, b) => a + b, 0) / v.length : null; };
const names = new Intl.Collator("en", { numeric: true });
const matches = t => R.tasks[t].toLowerCase().includes(state.query);
const every = () => Array.from({ length: T }, (_, t) => t);
const named = every().sort((a, b) => names.compare(R.tasks[a], R.tasks[b]));
const minus = (a, b) => (a === null || b === null ? null : a - b);

function mixed(share) {
  const x = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1), i = Math.min(Math.floor(x), RAMP.length - 2);
  return RAMP[i].map((c, k) => Math.round(c + (x - i) * (RAMP[i + 1][k] - c)));
}
// Signed values: white at zero, blue above, red below.
const ENDS = { above: [5, 48, 97], below: [103, 0, 31] };
const diverging = value => (value < 0 ? ENDS.below : ENDS.above).map(c => Math.round(255 + Math.min(Math.abs(value), 1) * (c - 255)));
const colour = share => css(mixed(share));
// The relative luminance of WCAG; below this, white text has the higher contrast.
const luminance = rgb => rgb.map(c => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4)).reduce((sum, c, k) => sum + [0.2126, 0.7152, 0.0722][k] * c, 0);
const inkOn = rgb => (luminance(rgb) < 0.2 ? "#fff" : "#0b1016");
const css = rgb => "rgb(" + rgb.join(",") + ")";
const gradient = paint => "linear-gradient(90deg," + (paint ? [-1, -.5, 0, .5, 1].map(v => css(paint(v))) : [0, .25, .5, .75, 1].map(colour)).join(",") + ")";

function showTip(event, lines) {
  tip.replaceChildren(...lines.map(line => make("div", {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = (event.clientY + box.height + 24 > innerHeight ? event.clientY - box.height - 12 : event.clientY + 14) + "px";
}
const hideTip = () => { tip.hidden = true; };

function bar(parts) {
  return make("span", { class: "bar" }, parts.map(([share, shade]) => make("i", { style: `width:${100 * Math.min(Math.max(share, 0), 1)}%;background:${shade}` })));
}
const shades = () => R.parts.names.map((_, i) => (i === R.parts.names.length - 1 ? OWN : SHADES[i % SHADES.length]));

/* ---- head ---- */
function head() {
  const d = R.data, m = R.model;
  const what = d ? `A model that predicts ${d.regression ? "the number" : "the class"} “${d.target}” in ${plural(T, "task")} (“${d.task}”), learned from ${plural(d.rows, "row")}${d.source ? " of " + d.source : ""}.`
    : `A model of ${plural(T, "task")}.`;
  page.append(make("header", {}, make("h1", {}, R.title), make("p", { class: "soft" }, what, " ", make("b", {}, m.name), m.description ? ": " + m.description + "." : ".")));
  const cards = [[String(T), T === 1 ? "task" : "tasks"]];
  if (d) cards.push([d.rows.toLocaleString("en"), "rows"]);
  if (R.kernels) cards.push([String(R.kernels.count), R.kernels.count === 1 ? "kernel" : "kernels"]);
  if (R.scores) {
    const [ours, average] = R.scores.columns.map(column => mean(column.values));
    cards.push([number(ours), `mean test ${R.scores.score}`]);
    if (average !== undefined && average !== null) cards.push([(ours >= average ? "+" : "−") + number(Math.abs(ours - average)), "against the " + R.scores.columns[1].name]);
  }
  if (R.certificate) cards.push([small(R.certificate.relative), "relative gap to the optimum"]);
  page.append(make("div", { class: "cards" }, cards.map(([value, text]) => make("div", { class: "card" }, make("b", {}, value), make("span", {}, text)))));
}

function tools() {
  const count = make("span", { class: "soft", id: "count", "aria-live": "polite" });
  const search = make("input", { type: "search", id: "search", placeholder: "Search a task by name", "aria-label": "Search a task by name",
    oninput: event => { state.query = event.target.value.trim().toLowerCase(); refresh(); } });
  state.redraw.push(() => { count.textContent = state.query ? `${every().filter(matches).length} of ${plural(T, "task")}` : plural(T, "task"); });
  page.append(make("div", { class: "tools" }, search, count));
}

/* ---- the table of tasks ---- */
function columns() {
  const found = [{ title: "Task", left: true, key: t => R.tasks[t], cell: t => R.tasks[t], foot: "mean" }];
  if (R.rows) found.push({ title: "Rows", key: t => R.rows[t], cell: t => R.rows[t] ?? "–", foot: number(mean(R.rows), 0) });
  if (R.scores) {
    const all = R.scores.columns, ours = all[0].values;
    for (const column of all) found.push({ title: column.name, key: t => column.values[t], cell: t => number(column.values[t]), foot: number(mean(column.values)) });
    if (all.length > 1) {
      const gain = ours.map((value, t) => minus(value, all[1].values[t]));
      const show = value => (value === null ? "–" : make("span", { class: value > 5e-4 ? "good" : value < -5e-4 ? "bad" : "soft" }, (value < 0 ? "−" : "+") + number(Math.abs(value))));
      found.push({ title: "Gain on " + all[1].name, key: t => gain[t], cell: t => show(gain[t]), foot: show(mean(gain)) });
    }
  }
  if (R.parts) found.push({ title: "Shared", key: t => 1 - R.parts.shares[t].at(-1), foot: percent(1 - mean(R.parts.shares.map(s => s.at(-1)))),
    cell: t => make("span", {}, percent(1 - R.parts.shares[t].at(-1)), " ", bar(R.parts.shares[t].map((share, i) => [share, shades()[i]]))) });
  if (R.kernels) {
    const top = R.kernels.shares.map(row => row.indexOf(Math.max(...row)));
    found.push({ title: "Largest " + (R.kernels.grouped ? "kernel group" : "kernel"), left: true, key: t => R.kernels.names[top[t]], cell: t => `${R.kernels.names[top[t]]} ${percent(R.kernels.shares[t][top[t]])}`, foot: "" });
  }
  if (R.relation && R.relation.groups) found.push({ title: "Group", key: t => R.relation.groups[t], cell: t => String(R.relation.groups[t] + 1), foot: "" });
  return found;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 2;  // tasks without a value come last in either direction
  if (b === null || b === undefined) return -2;
  return typeof a === "string" ? Math.sign(names.compare(a, b)) : a < b ? -1 : 1;
}

function tasksSection() {
  const shown = columns(), body = make("tbody", { id: "tasks" }), detail = make("div", { id: "detail", "aria-live": "polite" });
  const headers = shown.map((column, i) => make("th", { scope: "col", class: column.left ? "left" : "" }, make("button", { type: "button", onclick: () => sortBy(i) }, column.title)));
  const openers = every().map(t => make("button", { type: "button", class: "opener", "aria-controls": "detail", onclick: event => { event.stopPropagation(); choose(t); } }, R.tasks[t]));
  const rows = every().map(t => make("tr", { "data-task": R.tasks[t], onclick: () => choose(t) },
    shown.map((column, i) => make("td", { class: column.left ? "left" : "", title: column.left ? column.key(t) : null }, i ? column.cell(t) : openers[t]))));
  function sortBy(i) {
    state.down = state.sort === i ? !state.down : !shown[i].left || i !== 0;
    state.sort = i;
    refresh();
  }
  state.redraw.push(() => {
    const order = [...named];
    if (state.sort !== null) order.sort((a, b) => {
      const c = compare(shown[state.sort].key(a), shown[state.sort].key(b));
      return Math.abs(c) === 2 ? c : (state.down ? -c : c);
    });
    headers.forEach((header, i) => header.setAttribute("aria-sort", state.sort !== i ? "none" : state.down ? "descending" : "ascending"));
    rows.forEach((row, t) => { row.classList.toggle("chosen", t === state.chosen); openers[t].setAttribute("aria-expanded", t === state.chosen); });
    const focused = document.activeElement;
    body.replaceChildren(...order.filter(matches).map(t => rows[t]));
    if (body.contains(focused)) focused.focus({ preventScroll: true });  // a row that moves loses it
    detail.replaceChildren(...(state.chosen === null ? [] : [describe(state.chosen)]));
  });
  page.append(make("section", { id: "tasks-section" }, make("h2", {}, R.scores ? "How well each task is predicted" : "The tasks"), scoreText(),
    R.parts ? make("p", {}, R.parts.names.map((name, i) => make("span", { class: "key" }, make("i", { style: "background:" + shades()[i] }), name))) : null,
    make("div", { class: "scroll" }, make("table", { "aria-label": "Tasks" }, make("thead", {}, make("tr", {}, headers)), body,
      make("tfoot", {}, make("tr", {}, shown.map(column => make("td", { class: column.left ? "left" : "" }, column.foot)))))),
    make("p", { class: "soft" }, "Click a heading to sort, or a task to show its kernels and its group (keyboard: Tab and Enter)."), detail));
}

function scoreText() {
  const s = R.scores;
  if (!s) return make("p", { class: "soft" }, "No test scores were saved with this model.");
  return make("p", {}, `${s.score[0].toUpperCase() + s.score.slice(1)} on ${plural(s.test_rows, "row")} held out of the tasks, by models trained on the other ${s.train_rows.toLocaleString("en")}`
    + ` (${s.tuned ? "parameters chosen by cross-validation on the training rows" : "parameters at their defaults or as given"}). `
    + (s.verdict ? s.verdict + " " : "")
    + (s.columns.length > 1 ? "Average kernel: one kernel machine for each task, with the mean of all kernels. Single-task: with one kernel of all columns. Independent: with kernel weights learned in each task on its own." : ""));
}

function describe(t) {
  const list = (title, rows) => make("div", {}, make("h3", {}, title), rows.map(([name, share, text, shade]) =>
    make("div", { class: "row" }, make("span", { title: name }, name), bar([[Math.max(share, 0), shade || "#0072b2"]]), make("b", {}, text))));
  const parts = [];
  if (R.kernels) parts.push(list(`Kernels of ${R.tasks[t]}`, R.kernels.shares[t].map((share, k) => [R.kernels.names[k], share, percent(share)]).sort((a, b) => b[1] - a[1]).slice(0, 10)));
  if (R.relation && R.relation.groups) {
    const same = every().filter(s => s !== t && R.relation.groups[s] === R.relation.groups[t]);
    parts.push(make("div", {}, make("h3", {}, `Group of ${R.tasks[t]}`), make("p", {}, same.length
      ? `Cannot be told apart from ${same.slice(0, 10).map(s => R.tasks[s]).join(", ")}${same.length > 10 ? ` and ${same.length - 10} more` : ""}.` : "Differs from all other tasks.")));
  }
  if (R.parts) parts.push(list(`Parts of ${R.tasks[t]}`, R.parts.shares[t].map((share, i) => [R.parts.names[i], share, percent(share), shades()[i]])));
  return make("div", { class: "detail" }, parts);
}

function choose(t) { state.chosen = state.chosen === t ? null : t; refresh(); }

/* ---- heatmaps ---- */
function orders(similar) {
  const found = [["similar tasks together", similar], ["by name", named]];
  if (R.scores) found.push(["by " + R.scores.score, every().sort((a, b) => (R.scores.columns[0].values[b] ?? -1e9) - (R.scores.columns[0].values[a] ?? -1e9))]);
  if (R.parts) found.push(["by shared part", every().sort((a, b) => R.parts.shares[a].at(-1) - R.parts.shares[b].at(-1))]);
  return found;
}

function heatmap(id, options) {
  const canvas = make("canvas", { id, role: "img", tabindex: 0, "aria-label": options.label + ". Arrow keys show the value of each cell; Enter selects its task." }), choices = orders(options.order);
  const paint = options.paint || (value => mixed(options.shade(value)));
  let order = choices[0][1], geometry = null, cursor = [0, 0];
  const select = make("select", { "aria-label": "Order of the tasks", onchange: event => { order = choices[event.target.value][1]; draw(); } },
    choices.map(([text], i) => make("option", { value: i }, text)));
  function draw() {
    const wide = canvas.parentElement.clientWidth, column = options.square ? order : options.columns.map((_, k) => k);
    const pen = canvas.getContext("2d");
    pen.font = "11px system-ui, sans-serif";
    const longest = labels => Math.ceil(Math.max(...labels.map(label => pen.measureText(label).width)));
    const titles = options.square ? R.tasks : options.columns;
    let left = Math.min(longest(R.tasks) + 8, wide * 0.3);
    let cell = Math.min((wide - left) / column.length, options.square ? (T <= 8 ? 64 : 38) : 150);
    let high = options.square ? cell : Math.max(Math.min(22, 560 / T), 2);
    if (high < 9) { left = 0; cell = Math.min(wide / column.length, options.square ? (T <= 8 ? 64 : 38) : 150); high = options.square ? cell : high; }
    const upright = cell < longest(titles) + 6, bottom = cell < 9 ? 4 : upright ? Math.min(longest(titles) + 10, 200) : 20;
    const width = Math.round(left + cell * column.length), height = Math.round(high * T + bottom), sharp = devicePixelRatio || 1;
    canvas.width = width * sharp; canvas.height = height * sharp;
    canvas.style.width = width + "px"; canvas.style.height = height + "px";
    pen.scale(sharp, sharp);
    pen.font = "11px system-ui, sans-serif"; pen.textBaseline = "middle";
    const clip = (text, room) => { while (text.length > 2 && pen.measureText(text).width > room) text = text.slice(0, -2) + "…"; return text; };
    order.forEach((t, i) => {
      const faded = state.query && !matches(t);
      column.forEach((k, j) => {
        const crossed = faded && !(options.square && matches(k));
        pen.globalAlpha = crossed ? 0.15 : 1;
        pen.fillStyle = css(paint(options.value(t, k)));
        pen.fillRect(left + j * cell, i * high, Math.ceil(cell * sharp) / sharp, Math.ceil(high * sharp) / sharp);
      });
      pen.globalAlpha = faded ? 0.3 : 1;
      if (left && high >= 9) { pen.fillStyle = "#1c2733"; pen.textAlign = "right"; pen.fillText(clip(R.tasks[t], left - 6), left - 5, (i + .5) * high); }
    });
    pen.globalAlpha = 1;
    if (cell >= 30 && high >= 14) order.forEach((t, i) => column.forEach((k, j) => {
      const value = options.value(t, k);
      pen.fillStyle = inkOn(paint(value)); pen.textAlign = "center";
      if (!state.query || matches(t)) pen.fillText(options.text(value), left + (j + .5) * cell, (i + .5) * high);
    }));
    pen.fillStyle = "#1c2733";
    if (cell >= 9) column.forEach((k, j) => {
      pen.save(); pen.translate(left + (j + .5) * cell, T * high + 6);
      if (upright) { pen.rotate(-Math.PI / 2); pen.textAlign = "right"; pen.fillText(clip(titles[k], bottom - 8), 0, 0); }
      else { pen.textAlign = "center"; pen.fillText(titles[k], 0, 8); }
      pen.restore();
    });
    if (state.chosen !== null) { pen.strokeStyle = "#d55e00"; pen.lineWidth = 2; pen.strokeRect(left + 1, order.indexOf(state.chosen) * high, cell * column.length - 2, Math.max(high, 3)); }
    geometry = { left, cell, high, column };
  }
  function at(event) {
    const box = canvas.getBoundingClientRect(), i = Math.floor((event.clientY - box.top) / geometry.high);
    const j = Math.floor((event.clientX - box.left - geometry.left) / geometry.cell);
    return i >= 0 && i < T && j < geometry.column.length ? [order[i], j < 0 ? null : geometry.column[j]] : null;
  }
  const hover = event => {
    const found = at(event);
    if (!found || found[1] === null) hideTip(); else showTip(event, options.lines(...found));
  };
  function onKey(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Enter") choose(order[cursor[0]]);
    if (event.key === "Escape") hideTip();
    if (!step) return;
    event.preventDefault();
    const ends = [T, geometry.column.length], box = canvas.getBoundingClientRect();
    cursor = cursor.map((place, axis) => Math.min(Math.max(place + step[axis], 0), ends[axis] - 1));
    const at = { clientX: box.left + geometry.left + (cursor[1] + .5) * geometry.cell, clientY: box.top + (cursor[0] + .5) * geometry.high };
    showTip(at, options.lines(order[cursor[0]], geometry.column[cursor[1]]));
  }
  canvas.addEventListener("keydown", onKey);
  canvas.addEventListener("blur", hideTip);
  canvas.addEventListener("pointermove", hover);
  canvas.addEventListener("pointerdown", hover);
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", event => { const found = at(event); if (found) choose(found[0]); });
  state.redraw.push(draw);
  addEventListener("resize", draw);
  const scale = make("span", { class: "scale" }, options.scale[0], make("i", { style: "background:" + gradient(options.paint) }), options.scale[1]);
  return [make("div", { class: "head" }, make("label", {}, "Order: ", select), scale), make("div", { class: "map" }, canvas)];
}

function kernelsSection() {
  const K = R.kernels;
  if (!K) return;
  const most = Math.max(...K.shares.flat(), 1e-9), each = K.names.map((name, k) => [name, mean(K.shares.map(row => row[k]))]).sort((a, b) => b[1] - a[1]);
  page.append(make("section", { id: "kernels-section" }, make("h2", {}, "Kernel weights of each task"),
    make("p", {}, `Each row is a task, each column ${K.grouped ? `a group of the ${K.count} kernels` : "a kernel"}; darker is a larger share of the task's own weights. `
      + `Over all tasks: ${each.slice(0, 3).map(([name, share]) => `${name} ${percent(share)}`).join(", ")}.`),
    heatmap("kernel-map", { label: "Kernel shares of each task", columns: K.names, order: K.order, value: (t, k) => K.shares[t][k], shade: v => v / most,
      text: percent, scale: ["0%", percent(most)], lines: (t, k) => [R.tasks[t], `${K.names[k]}: ${(100 * K.shares[t][k]).toFixed(1)}%`] })));
}

function relationSection() {
  const L = R.relation;
  if (!L) return;
  const section = make("section", { id: "relation-section" }, make("h2", {}, "Relations of the tasks"));
  page.append(section);
  if (!L.tested) { section.append(make("p", {}, "Relations of the tasks were not tested when this model was saved, so none are shown.")); return; }
  section.append(make("p", {}, L.text));
  if (!L.structured) return;
  if (!L.matrix) { section.append(make("p", { class: "soft" }, "There are too many tasks to draw all pairs: the table has the group of each.")); return; }
  section.append(make("p", { class: "soft" }, "Likeness of the tasks' functions, corrected for noise: 1 for equal functions, 0 for functions that have nothing in common, −1 for opposite ones. Pairs of the same two groups have one value."));
  section.append(...heatmap("relation-map", { label: "Likeness of tasks", square: true, order: L.order, value: (t, s) => L.matrix[t][s], paint: diverging,
    text: v => number(v, 2), scale: ["−1", "1"], lines: (t, s) => [`${R.tasks[t]} and ${R.tasks[s]}`, `likeness ${number(L.matrix[t][s], 2)}`] }));
}

function partsSection() {
  const P = R.parts;
  if (!P) return;
  const body = make("div", { id: "parts" }), own = P.shares.map(row => row.at(-1));
  const order = every().sort((a, b) => own[a] - own[b]);
  const rows = order.map(t => make("div", { class: "row", "data-task": R.tasks[t], onpointermove: event => showTip(event, [R.tasks[t], ...P.names.map((name, i) => `${name}: ${percent(P.shares[t][i])}`)]), onpointerleave: hideTip },
    make("span", {}, R.tasks[t]), bar(P.shares[t].map((share, i) => [share, shades()[i]])), make("b", {}, percent(1 - own[t]))));
  state.redraw.push(() => rows.forEach((row, i) => { row.hidden = !matches(order[i]); row.style.display = row.hidden ? "none" : ""; }));
  body.append(...rows);
  page.append(make("section", { id: "parts-section" }, make("h2", {}, "Shared and own parts of each task"),
    make("p", {}, `The share of the variance of each task's function that comes from the parts common to tasks: largest for ${R.tasks[order[0]]} (${percent(1 - own[order[0]])}), smallest for ${R.tasks[order.at(-1)]} (${percent(1 - own[order.at(-1)])}).`
      + (own.some(share => share < 0) ? " Above 100%, a task's own part cancels some of the shared part." : "")),
    make("p", {}, P.names.map((name, i) => make("span", { class: "key" }, make("i", { style: "background:" + shades()[i] }), name))), make("div", { class: "scroll", style: "padding:8px 12px" }, body)));
}

/* ---- probabilities and intervals ---- */
function uncertaintySection() {
  const U = R.uncertainty;
  if (!U) return;
  const text = U.bins
    ? `Rows held out of training, in ${U.bins.length} groups by their probability${U.label === null ? "" : ` of “${U.label}”`}: where the points are on the line, classes happen as often as the model says. Bars: two standard errors.`
    : (() => {
      const shares = every().filter(t => U.rows[t]).map(t => U.covered[t] / U.rows[t]), total = listed(U.covered).reduce((a, b) => a + b, 0) / listed(U.rows).reduce((a, b) => a + b, 0);
      return `Intervals that should contain ${percent(U.coverage)} of the targets contain ${number(100 * total, 1)}% of those of rows held out of training; by task from ${percent(Math.min(...shares))} to ${percent(Math.max(...shares))}. The picture shows ${plural(U.points.length, "row")}; orange ones are outside their interval.`;
    })();
  page.append(make("section", { id: "uncertainty-section" }, make("h2", {}, "How sure the predictions are"), make("p", {}, text), U.bins ? reliabilityChart(U) : intervalChart(U)));
}

function axes(label, xs, ys, xName, yName, digits) {
  const w = Math.min(460, page.clientWidth - 40), h = Math.round(0.8 * w), l = 58, b = 40;
  const [x0, x1] = xs, [y0, y1] = ys;
  const x = v => l + (w - l - 12) * (v - x0) / ((x1 - x0) || 1), y = v => 8 + (h - b - 8) * (y1 - v) / ((y1 - y0) || 1);
  const drawing = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": label, style: `width:100%;max-width:${w}px;display:block` });
  for (let i = 0; i <= 4; i++) {
    const v = y0 + (y1 - y0) * i / 4, u = x0 + (x1 - x0) * i / 4;
    drawing.append(svg("line", { x1: l, x2: w - 12, y1: y(v), y2: y(v), stroke: "#e5e9ed" }), svg("text", { x: l - 6, y: y(v) + 4, "text-anchor": "end" }, v.toPrecision(digits)),
      svg("text", { x: x(u), y: h - b + 16, "text-anchor": "middle" }, u.toPrecision(digits)));
  }
  const low = Math.max(x0, y0), high = Math.min(x1, y1);
  if (high > low) drawing.append(svg("line", { x1: x(low), y1: y(low), x2: x(high), y2: y(high), stroke: "#8a939c", "stroke-dasharray": "4 4" }));
  drawing.append(svg("text", { x: (l + w) / 2, y: h - 6, "text-anchor": "middle" }, xName), svg("text", { x: 12, y: h / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${h / 2})` }, yName));
  return { drawing, x, y };
}

function reliabilityChart(U) {
  const { drawing, x, y } = axes("Frequency by probability", [0, 1], [0, 1], "probability", "frequency", 2);
  for (const [p, f, n] of U.bins) {
    const q = (f * n + 1) / (n + 2), e = 2 * Math.sqrt(q * (1 - q) / n);
    drawing.append(svg("line", { x1: x(p), x2: x(p), y1: y(Math.max(f - e, 0)), y2: y(Math.min(f + e, 1)), stroke: "#0072b2" }), svg("circle", { cx: x(p), cy: y(f), r: 4, fill: "#0072b2" }));
  }
  return drawing;
}

function intervalChart(U) {
  const range = values => [Math.min(...values), Math.max(...values)];
  const { drawing, x, y } = axes("Actual by predicted values, with intervals", range(U.points.map(p => p[0])), range(U.points.flatMap(p => p.slice(1))), "predicted", "actual", 3);
  for (const [p, low, high, actual] of U.points) {
    const shade = low <= actual && actual <= high ? "#0072b2" : "#d55e00";
    drawing.append(svg("line", { x1: x(p), x2: x(p), y1: y(low), y2: y(high), stroke: shade, "stroke-opacity": 0.3 }), svg("circle", { cx: x(p), cy: y(actual), r: 2.5, fill: shade }));
  }
  return drawing;
}

/* ---- certificate ---- */
function svg(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.textContent = text;
  return element;
}

function certificateSection() {
  const C = R.certificate;
  if (!C) return;
  page.append(make("section", { id: "certificate-section" }, make("h2", {}, "Certificate of optimality"),
    make("p", {}, `The objective of this fit is ${C.objective.toPrecision(6)}. Its duality gap proves that no other ${C.weights ? "choice of kernel weights and functions" : "solution of this model's problem"} has an objective lower by more than ${small(C.gap)} (relative: ${small(C.relative)}).`
      + (C.tol !== null ? (C.relative <= C.tol ? ` The requested tolerance, ${C.tol}, was reached.` : ` The requested tolerance, ${C.tol}, was not reached, so a longer fit may differ.`) : "")),
    C.history.length > 1 ? chart(C) : null));
}

function chart(C) {
  const w = Math.min(640, page.clientWidth - 40), h = 190, l = 52, b = 26, gaps = C.history.map(gap => Math.log10(Math.max(gap ?? 1e300, 1e-16)));
  const top = Math.ceil(Math.min(Math.max(...gaps), 3)), low = Math.floor(Math.min(...gaps, C.tol ? Math.log10(C.tol) : 0));
  const x = i => l + (w - l - 10) * i / (gaps.length - 1), y = g => 8 + (h - b - 8) * (top - Math.min(g, top)) / Math.max(top - low, 1);
  const drawing = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": "Relative duality gap by iteration", style: `width:100%;max-width:${w}px;display:block` });
  for (let e = low; e <= top; e += Math.max(1, Math.ceil((top - low) / 6))) {
    drawing.append(svg("line", { x1: l, x2: w - 10, y1: y(e), y2: y(e), stroke: "#e5e9ed" }), svg("text", { x: l - 6, y: y(e) + 4, "text-anchor": "end" }, e === 0 ? "1" : "1e" + e));
  }
  if (C.tol) drawing.append(svg("line", { x1: l, x2: w - 10, y1: y(Math.log10(C.tol)), y2: y(Math.log10(C.tol)), stroke: "#d55e00", "stroke-dasharray": "4 4" }),
    svg("text", { x: l + 4, y: y(Math.log10(C.tol)) - 4 }, "tolerance"));
  drawing.append(svg("polyline", { points: gaps.map((gap, i) => `${x(i)},${y(gap)}`).join(" "), fill: "none", stroke: "#0072b2", "stroke-width": 2 }));
  drawing.append(svg("text", { x: l, y: h - 8 }, "1"), svg("text", { x: w - 10, y: h - 8, "text-anchor": "end" }, `iteration ${gaps.length}`));
  return make("div", {}, make("h3", {}, "Relative gap by iteration"), drawing);
}

/* ---- the rest ---- */
function aboutSection() {
  const m = R.model, d = R.data, facts = [["Model", `${m.name} (${m.class})`]];
  if (m.reference) facts.push(["Reference", m.reference]);
  const set = Object.entries(m.parameters).map(([name, value]) => `${name}=${value}`).join(", ");
  facts.push(["Parameters", set || "the defaults"]);
  if (d) {
    facts.push(["Target", d.target + (d.regression ? ", a number" : `, a class: ${d.classes.join(", ")}`)], ["Task", d.task]);
    const kind = { date: c => `${c.name} (${c.words})`, number: c => `${c.name} (number${c.unit ? " in " + c.unit : ""}, mean ${c.mean}, scale ${c.scale})`, boolean: c => `${c.name} (yes or no)`, text: c => `${c.name} (text: ${c.values.slice(0, 8).join(", ")}${c.values.length > 8 ? ", … " + c.values.length + " in all" : ""})` };
    facts.push(["Columns", d.columns.map(c => kind[c.kind](c)).join("; ")]);
    const left = Object.entries(d.left_out).map(([name, why]) => `${name} (${why})`).join("; ");
    if (left) facts.push(["Left out", left]);
  }
  if (m.command) facts.push(["Made by", make("code", {}, m.command)]);
  facts.push(["Version", "kernelkin " + m.version]);
  page.append(make("section", { id: "about-section" }, make("h2", {}, "Model and data"), make("dl", {}, facts.map(([title, text]) => [make("dt", {}, title), make("dd", {}, text)]))));
}

function loadSection() {
  const file = JSON.stringify(R.load.file);
  const python = R.load.table
    ? `import pandas as pd\nfrom kernelkin import load_model\n\nsaved = load_model(${file})\nsaved.predict(pd.read_csv("new.csv"))   # the columns of the training table, in any order\nsaved.model.kernel_weights_             # (tasks, kernels)`
    : `from kernelkin import load_model\n\nsaved = load_model(${file})\nsaved.model.predict(X, tasks=tasks)\nsaved.model.kernel_weights_             # (tasks, kernels)`;
  page.append(make("section", { id: "load-section" }, make("h2", {}, "How to load the model"),
    make("p", {}, "Loading executes no code from the file (", make("code", {}, "pip install \"kernelkin[cli]\""), ")."), make("pre", {}, make("code", {}, python)),
    R.load.table ? make("pre", {}, make("code", {}, `kernelkin predict ${R.load.file} new.csv -o predictions.csv`)) : null));
}

function refresh() { hideTip(); for (const draw of state.redraw) draw(); }
page.replaceChildren();
head(); tools(); tasksSection(); uncertaintySection(); kernelsSection(); relationSection(); partsSection(); certificateSection(); aboutSection(); loadSection();
refresh();
document.documentElement.dataset.ready = "yes";
