/* The rows that effects are averaged over: groups take turns, in random order. */
const someRows = (model) =>
  `${model.drivers.rows} rows of ${
    model.drivers.rows < model.tasks.length
      ? `${model.drivers.rows} of the ${model.tasks.length} groups, drawn at random`
      : "all groups"
  }`;

/* What drives predictions: columns and kernels by name, and the effect of each column. */
function driversSection(models) {
  return modelSection("drivers", "What drives predictions", models, (model) => {
    const parts = [...columnPictures(model), kernelShares(model)].filter(Boolean);
    return make(
      "div",
      {},
      parts.length ? make("div", { class: "grid" }, parts) : null,
      effectsPicture(model),
      whatIf(model),
    );
  });
}

function columnPictures(model) {
  const D = model.drivers, found = [];
  if (D.effects.length > 1) {
    const records = D.effects.map((effect) => ({
      column: effect.name,
      change: effect.change[0],
      low: effect.change[1],
      high: effect.change[2],
    }));
    found.push(barPicture({
      title: "How much each column changes predictions",
      records,
      note:
        `How much “${D.quantity}” changes when one column takes all its values and the others are fixed: mean over ${
          someRows(model)
        }, and the middle 90% of them.${
          D.outputs.length > 1 ? " Of the classes, the one that changes most counts." : ""
        }`,
      field: "column",
      value: "change",
      title_x: `change in ${D.quantity}`,
      format: ",.3~r",
      ends: true,
    }));
  }
  if (D.shares.length > 1 && !D.effects.length) {
    found.push(barPicture({
      title: "Variance explained by each column",
      note: "The share of each column in the variance that all columns explain.",
      records: D.shares.slice(0, 12).map(([column, share]) => ({ column, share })),
      field: "column",
      value: "share",
      title_x: "share of what columns explain",
      format: ".0%",
      ends: false,
    }));
  }
  return found;
}

function kernelShares(model) {
  const K = model.kernels;
  if (!K) return null;
  const records = K.names.map((kernel, k) => ({ kernel, share: K.shares[k] })).filter((r) => r.share > .0005)
    .sort((a, b) => b.share - a.share).slice(0, 12);
  return records.length
    ? barPicture({
      title: "Kernels",
      note: `Mean over groups of their share in the kernel weights${
        K.names.length < K.count ? `; the ${K.count} kernels are shown in groups` : ""
      }.`,
      records,
      field: "kernel",
      value: "share",
      title_x: "share of the kernel weights",
      format: ".0%",
      ends: false,
    })
    : null;
}

function barPicture({ title, note, records, field, value, title_x, format, ends }) {
  return picture({
    title,
    note,
    label: `${title}: ${records.slice(0, 5).map((record) => `${record[field]} ${text(record[value])}`).join(", ")}`,
    records: () => records,
    spec: (width, c) => {
      const values = records.map((record) => ({ ...record, name: wrap(record[field], width * .36) })),
        names = values.map((record) => record.name);
      return {
        height: rowHeight(names) * records.length,
        data: { values },
        encoding: { y: { field: "name", ...nameAxis(c, names) } },
        layer: [
          {
            // Lines of the middle 90% are seen on pale bars.
            mark: { type: "bar", cornerRadius: 2, height: 13, opacity: ends ? .5 : 1 },
            encoding: {
              x: {
                field: value,
                type: "quantitative",
                title: wrap(title_x, width * .56).split("\n"),
                axis: { format, tickCount: 5, labelOverlap: true },
              },
              tooltip: Object.keys(records[0]).map((name) =>
                name === field ? { field: name } : { field: name, format: format === ".0%" ? ".1%" : format }
              ),
            },
          },
          ...(ends
            ? [{
              mark: { type: "rule", color: c.ink, aria: false },
              encoding: { x: { field: "low", type: "quantitative" }, x2: { field: "high" } },
            }]
            : []),
        ],
      };
    },
  });
}

/* Effects of columns: the mean over groups, and each group's own curve as a thin line. */
function effectsPicture(model) {
  const D = model.drivers;
  if (!D.effects.length) return make("p", { class: "soft" }, `Effects of columns are not available: ${D.reason}.`);
  const records = D.effects.flatMap((effect) =>
    effectRecords(D, effect).map(({ output, ...record }) => ({
      column: withUnit(effect),
      ...(D.outputs.length > 1 ? { class: output } : {}),
      ...record,
    }))
  );
  const withCurves = D.effects.filter((effect) => effect.curves).length,
    drawn = withCurves ? D.effects[0].groups.length : 0,
    span = extent(D.effects.flatMap((effect) => [effect.low, effect.high, effect.curves || []].flat(3)));
  return make(
    "div",
    { style: "margin-top:22px" },
    picture({
      title: "Effect of each column",
      label: `Mean of ${D.quantity} by the value of each of ${D.effects.length} columns`,
      records: () => records,
      note: `Thick line: the mean of “${D.quantity}” over ${someRows(model)} if the column has this value. ${
        withCurves
          ? `Thin lines: ${drawn < model.tasks.length ? `${drawn} of the ${model.tasks.length} groups` : "each group"}${
            withCurves < D.effects.length ? `, for the first ${withCurves} columns` : ""
          }. `
          : ""
      }Band: where 90% of the rows are, each relative to its own level. These are effects in the model, which need not be causes.`,
      spec: (width, c) => {
        const columns = Math.max(1, Math.min(Math.floor(width / 260), 6, D.effects.length)),
          each = Math.min(Math.floor(width / columns) - (columns > 1 ? 52 : 62), 620);
        return {
          width: undefined,
          autosize: { type: "pad" },
          columns,
          spacing: { row: 22, column: 34 },
          // Classes side by side have the room of a name of their own column.
          resolve: { scale: { xOffset: "independent" } },
          concat: D.effects.map((effect) =>
            effectPanel(model, effect, each, span, outputColour(D.outputs, width, c), c)
          ),
        };
      },
    }),
  );
}

/* The curves of an effect as records: one curve, or one for each class. */
const effectRecords = (D, effect) =>
  D.outputs.flatMap((output, k) =>
    effect.values.map((value, v) => ({
      output,
      value,
      mean: effect.mean[k][v],
      low: effect.low[k][v],
      high: effect.high[k][v],
    }))
  );

/* Colours of classes, with a legend if there are several. */
function outputColour(outputs, width, c) {
  const range = [c.accent, c.second, c.good, c.bad, c.ink, c.soft].slice(0, outputs.length),
    widest = Math.max(...outputs.map((output) => textWidth(output)));
  return {
    field: "output",
    type: "nominal",
    scale: { domain: outputs, ...(outputs.length > range.length ? { scheme: "tableau20" } : { range }) },
    legend: outputs.length > 1
      ? { title: null, labelLimit: 0, symbolOpacity: 1, columns: Math.max(1, Math.floor(width / (widest + 40))) }
      : null,
  };
}

/* The name of a column with its unit, unless the name already contains it. */
const withUnit = ({ name, unit }) => unit && !name.includes(unit) ? `${name} (${unit})` : name;

/* Whether numbers are written without separators of thousands: a year is 1985, not 1,985. */
const isShort = ({ kind, values }) => kind === "number" && values.every((value) => Math.abs(value) < 1e4);

/* Times, days, months or years, by the range of the dates. */
function dateFormat(values) {
  const days = (new Date(values.at(-1)) - new Date(values[0])) / 86_400_000;
  return days < 2 ? "%H:%M" : days < 120 ? "%-d %b" : days < 3000 ? "%b %Y" : "%Y";
}

function effectPanel(model, effect, width, domain, color, c) {
  // Between two numbers, such as 0 and 1 for no and yes, there is nothing to draw a line through.
  const D = model.drivers,
    several = D.outputs.length > 1,
    kind = effect.kind === "number" && effect.values.length === 2 ? "text" : effect.kind,
    line = kind !== "text",
    room = width / effect.values.length,
    word = (value) => typeof value === "number" ? text(value) : value,
    across = namesAcross(effect.values.map(word), room - 4),
    name = (value) => line ? value : across.lines(word(value)),
    values = effectRecords(D, effect).map((record) => ({ ...record, value: name(record.value), label: record.value })),
    thin = (effect.curves || []).flatMap((curve, g) =>
      curve.map((own, v) => ({ value: name(effect.values[v]), group: model.tasks[effect.groups[g]], own }))
    );
  const x = {
    field: "value",
    type: { number: "quantitative", date: "temporal", text: "nominal" }[kind],
    title: null,
    sort: null,
    axis: {
      grid: false,
      labelLimit: 0,
      ...(line
        ? {
          tickCount: Math.max(3, Math.floor(width / (effect.kind === "date" ? 50 : 70))),
          labelOverlap: true,
          labelAngle: 0,
          // A label at the left end is not on the lowest number of the other axis.
          labelPadding: 10,
          ...(effect.kind === "date" ? { format: dateFormat(effect.values) } : isShort(effect) ? { format: "f" } : {}),
        }
        : across.axis),
    },
    ...(kind === "number" ? { scale: { zero: false, nice: false } } : {}),
  };
  const y = (field) => ({
    field,
    type: "quantitative",
    title: null,
    scale: { domain, zero: false, nice: false },
    axis: { tickCount: 4 },
  });
  const title = wrap(withUnit(effect), width, 600).split("\n");
  const tooltip = [
    { field: "label", title: effect.name },
    ...(several ? [{ field: "output", title: "class" }] : []),
    { field: "mean", format: DIGITS },
    { field: "low", title: "90% from", format: DIGITS },
    { field: "high", title: "to", format: DIGITS },
  ];
  return {
    title: { text: title, anchor: "start", fontSize: 12, fontWeight: 600, color: c.ink, offset: 6 },
    width,
    height: D.effects.length > 1 ? 150 : 260,
    data: { values },
    // Classes are side by side above a name.
    encoding: {
      color,
      ...(several && !line
        ? { xOffset: { field: "output", sort: D.outputs, scale: { paddingInner: .5, paddingOuter: .25 } } }
        : {}),
    },
    layer: [
      {
        mark: {
          type: line ? "area" : "bar",
          opacity: isDark() ? .25 : .15,
          aria: false,
          ...(line || several ? {} : { width: { band: .5 } }),
        },
        encoding: { x, y: y("low"), y2: { field: "high" } },
      },
      {
        data: { values: thin },
        mark: { type: line ? "line" : "tick", opacity: .45, strokeWidth: 1, thickness: 1, aria: false },
        encoding: {
          x,
          y: y("own"),
          detail: { field: "group" },
          color: { value: c.soft },
          tooltip: [{ field: "group" }, { field: "own", format: DIGITS }],
        },
      },
      ...(line ? [{ mark: { type: "line", strokeWidth: 3 }, encoding: { x, y: y("mean") } }] : []),
      // Points of a fine grid are there for their values on hover.
      {
        mark: { type: "point", size: line ? 16 : 55, opacity: effect.values.length > 40 ? 0 : 1 },
        encoding: { x, y: y("mean"), tooltip },
      },
    ],
  };
}

/* Predictions on a grid of values. Sliders only stop at these values, so nothing is interpolated. */
function whatIf(model) {
  const W = model.drivers.grid;
  if (!W) return null;
  const names = W.groups.map((g) => g < 0 ? "a group never seen" : model.tasks[g]);
  // By name, and the new group is last.
  const order = range(names.length).sort((a, b) =>
    (W.groups[a] < 0) - (W.groups[b] < 0) || compare(names[a], names[b], 1)
  );
  const state = { group: order[0], at: W.columns.map((column) => Math.floor((column.values.length - 1) / 2)) };
  const output = make("output", { class: "predicted", "aria-live": "polite" }), outputs = model.drivers.outputs;
  const place = (at) => at.reduce((position, v, k) => position * W.columns[k].values.length + v, 0);
  const chosen = make("select", {
    onchange: (event) => {
      state.group = Number(event.target.value);
      update();
    },
  }, order.map((g) => make("option", { value: g }, names[g])));
  const sliders = W.columns.map((column, k) => {
    const value = make("span", { class: "soft" });
    const oninput = (event) => {
      state.at[k] = Number(event.target.value);
      update();
    };
    // Words have no order.
    const words = column.kind === "text",
      slider = words
        ? make(
          "select",
          { oninput },
          column.values.map((name, v) => make("option", { value: v, selected: v === state.at[k] }, name)),
        )
        : make("input", { type: "range", min: 0, max: column.values.length - 1, value: state.at[k], oninput });
    return {
      column,
      value,
      element: make("label", {}, make("span", {}, withUnit(column)), slider, words ? null : value),
    };
  });
  function update() {
    const i = place(state.at), of = (ends) => text(ends[state.group][i]);
    output.replaceChildren(...outputs.map((name, k) => {
      const mean = W.mean[k][state.group][i], shown = model.drivers.is_probability ? percent(mean, 1) : text(mean);
      return make("div", {}, shown, outputs.length > 1 ? make("span", {}, ` ${name}`) : null);
    }));
    if (W.low) output.append(make("span", {}, `${percent(W.coverage)} interval ${of(W.low)} to ${of(W.high)}`));
    sliders.forEach(({ column, value }, k) => {
      const found = column.values[state.at[k]];
      value.textContent = typeof found !== "number" ? found : text(found, 4).replace(isShort(column) ? "," : "", "");
    });
  }
  update();
  const typical = W.typical.map(([name, value]) =>
      `${name} ${typeof value === "number" ? text(value, 4).replace(Math.abs(value) < 1e4 ? "," : "", "") : value}`
    ),
    others = typical.length
      ? ` The other columns are as in a typical row${W.n_others > typical.length ? ", among them" : ":"} ${
        typical.join(", ")
      }.`
      : "",
    new_ones = model.further.length
      ? ` The ${model.further.map(([name]) => name).join(" and the ")} ${
        model.further.length > 1 ? "are new ones" : "is a new one"
      }.`
      : "",
    exposure = model.data?.exposure ? ` The exposure, ${model.data.exposure}, is at its median.` : "",
    groups = W.groups.filter((g) => g >= 0).length,
    sample = groups < model.tasks.length ? ` ${groups} of the ${model.tasks.length} groups can be chosen.` : "";
  return make(
    "div",
    { class: "what-if", style: "margin-top:22px" },
    make("h3", {}, `What if: ${model.drivers.quantity}`),
    make(
      "p",
      { class: "soft small" },
      `Predictions of the model for the values you set.${others}${new_ones}${exposure}${sample}`,
    ),
    make(
      "div",
      { class: "tools" },
      make("label", {}, make("span", {}, "Group"), chosen),
      sliders.map((one) => one.element),
      output,
    ),
  );
}
