/* Charts by Vega-Lite, drawn as SVG in the colours of the theme, as wide as the page allows. */
const figures = [];
let fileSerial = 0;
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const pen = document.createElement("canvas").getContext("2d");
/* The width of text of 12 pixels; `weight` is 600 for titles. */
function textWidth(words, weight = 400) {
  pen.font = `${weight} 12px ${FONT}`;
  return pen.measureText(words).width;
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["paper", "ink", "soft", "line", "grid", "accent", "second", "raised", "good", "bad"]
    .map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function config(c) {
  return {
    background: c.paper,
    font: FONT,
    padding: { left: 2, right: 6, top: 6, bottom: 2 },
    view: { stroke: null },
    axis: {
      labelColor: c.soft,
      titleColor: c.soft,
      gridColor: c.grid,
      domainColor: c.line,
      tickColor: c.line,
      labelFontSize: 11.5,
      titleFontSize: 12,
      titleFontWeight: 500,
      titlePadding: 8,
      labelLimit: 170,
      ticks: false,
      labelPadding: 6,
      labelSeparation: 6,
      // Numbers at the ends stand below their own lines.
      labelFlush: false,
    },
    legend: {
      labelColor: c.soft,
      titleColor: c.soft,
      labelFontSize: 12,
      titleFontSize: 12,
      titleFontWeight: 500,
      orient: "top",
      symbolType: "circle",
    },
    header: { labelColor: c.ink, labelFontSize: 12, labelFontWeight: 600, labelLimit: 190, titleColor: c.soft },
    point: { filled: true, size: 30, color: c.accent },
    line: { color: c.accent, strokeWidth: 2 },
    rule: { color: c.soft },
    bar: { color: c.accent },
    area: { color: c.accent },
    text: { color: c.ink, fontSize: 12 },
  };
}

/* A figure with a title, a description for screen readers, and files to download. `spec(width, colours)` gives the
   Vega-Lite specification, `records` the numbers behind it. */
function picture({ title, note, label, spec, records }) {
  const chart = make("div", { class: "chart" });
  const state = { chart, view: null, width: 0, spec, label, drawn: Promise.resolve() };
  const save = (kind) => async () => {
    const name = `${fileName(title)}.${kind}`;
    if (kind === "svg") download(name, await state.view.toSVG(), "image/svg+xml");
    else download(name, await state.view.toImageURL("png", 2));
  };
  const buttons = make(
    "div",
    { class: "downloads" },
    make("button", { type: "button", onclick: save("svg"), "aria-label": `Download ${title} as SVG` }, "SVG"),
    make("button", { type: "button", onclick: save("png"), "aria-label": `Download ${title} as PNG` }, "PNG"),
    make("button", {
      type: "button",
      onclick: () => download(`${fileName(title)}.csv`, csv(records()), "text/csv"),
      "aria-label": `Download the numbers of ${title} as CSV`,
    }, "CSV"),
  );
  figures.push(state);
  return make(
    "figure",
    { id: `figure-${++fileSerial}` },
    make("figcaption", {}, make("h3", {}, title), buttons),
    note ? make("p", { class: "soft small" }, note) : null,
    chart,
  );
}

async function drawOne(state) {
  const width = Math.floor(state.chart.clientWidth), c = colours();
  if (!width || !state.chart.isConnected) return;
  state.width = width;
  const spec = {
    description: state.label,
    autosize: { type: "fit-x", contains: "padding" },
    width,
    ...state.spec(width, c),
    config: config(c),
  };
  const holder = make("div");
  const found = await vegaEmbed(holder, spec, {
    mode: "vega-lite",
    renderer: "svg",
    actions: false,
    ast: true,
    logLevel: 1,
    tooltip: { theme: isDark() ? "dark" : "light" },
  });
  if (state.view) state.view.finalize();
  state.view = found.view;
  state.chart.replaceChildren(holder);
}

/* Charts are drawn one after the other. A chart that is requested again while it is drawn is drawn again. */
const draw = (state) => (state.drawn = state.drawn.then(() => drawOne(state)));
const drawAll = () => Promise.all(figures.filter((state) => state.chart.isConnected).map(draw));

function watchWidth() {
  let timer = null;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(
      () =>
        figures.filter((state) => state.chart.isConnected && Math.floor(state.chart.clientWidth) !== state.width)
          .forEach(draw),
      120,
    );
  });
}

/* ---- the theme ---- */
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themeButton() {
  const button = make("button", { type: "button", id: "theme" });
  const name = () => {
    button.textContent = isDark() ? "Light theme" : "Dark theme";
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    name();
    drawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    name();
    drawAll();
  });
  name();
  return button;
}

/* ---- parts of specifications ---- */
/* The scale of colours between two of them; `isDarkCell` says whether text on it is white. */
const between = (low, high, domain) => ({ domain, range: [low, high], interpolate: "rgb" });
const channels = (code) => [1, 3, 5].map((at) => parseInt(code.slice(at, at + 2), 16));
function luminance(rgb) {
  const power = (v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  return sum(rgb.map((v, k) => [.2126, .7152, .0722][k] * power(v / 255)));
}
/* Whether white has more contrast than black to a cell whose colour is at this place between two colours. One of them
   always has a contrast of 4.5, which ink and paper of a theme have not. */
function isDarkCell(place, low, high) {
  const [from, to] = [low, high].map(channels);
  return luminance(from.map((v, k) => v + place * (to[k] - v))) < .179;
}
const identity = (low, high, c) => ({
  data: { values: [{ a: low, b: low }, { a: high, b: high }] },
  mark: { type: "line", color: c.soft, strokeDash: [4, 4], strokeWidth: 1, aria: false },
  encoding: { x: { field: "a", type: "quantitative" }, y: { field: "b", type: "quantitative" } },
});
const extent = (values) => {
  const found = values.filter(known),
    low = Math.min(...found),
    high = Math.max(...found),
    pad = (high - low) * .03 || 1;
  return [low - pad, high + pad];
};
/* At most seven round numbers between the smallest and the largest value, the ticks of a histogram. */
const roundNumbers = (values) => {
  const low = Math.min(...values), high = Math.max(...values), least = (high - low) / 6 || 1;
  const step = [1, 2, 5, 10].map((digit) => digit * 10 ** Math.floor(Math.log10(least))).find((each) => each >= least);
  return range(7).map((k) => (Math.ceil(low / step) + k) * step).filter((tick) => tick <= high);
};
/* Break names into lines of at most this many pixels, so that none is cut. Words that are too long are broken. */
function wrap(name, pixels, weight = 400) {
  const fits = (line) => textWidth(line.trimEnd(), weight) <= Math.max(40, pixels), lines = [""];
  for (const word of String(name).split(/(?<=[\s,;/_-])/)) {
    if (lines.at(-1) && !fits(lines.at(-1) + word)) lines.push("");
    for (const part of fits(word) ? [word] : word) {
      if (lines.at(-1) && !fits(lines.at(-1) + part)) lines.push("");
      lines[lines.length - 1] += part;
    }
  }
  return lines.map((line) => line.trim()).join("\n");
}
const lineCount = (words) => words.split("\n").length;
const LINES = "split(datum.label, '\\n')";
/* A vertical axis of names that `wrap` has put into lines. */
const nameAxis = (c, domain, height = 13) => ({
  type: "nominal",
  title: null,
  scale: { domain },
  axis: {
    labelColor: c.ink,
    labelLimit: 0,
    labelExpr: LINES,
    domain: false,
    labelLineHeight: height,
    labelOffset: { condition: { test: "true", expr: `${-height / 2} * (length(${LINES}) - 1)` }, value: 0 },
  },
});
const rowHeight = (names, least = 24) => Math.max(least, ...names.map((name) => 13 * lineCount(name) + 7));
/* Names side by side, with `room` pixels each: in lines, or turned if a word is too long. The lines of each name, and
   the axis. */
function namesAcross(names, room) {
  const turned = names.some((name) => String(name).split(/[\s,;/_-]/).some((word) => textWidth(word) > room));
  return {
    lines: (name) => wrap(name, turned ? 130 : room),
    axis: { labelLimit: 0, labelExpr: LINES, labelLineHeight: 12, labelAngle: turned ? -90 : 0 },
  };
}
