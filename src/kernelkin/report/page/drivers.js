/* What drives predictions: columns and kernels by name, and the effect of each column. */
function driversSection(models) {
  return modelSection("drivers", "What drives predictions", models, (model) => {
    const parts = [variancePicture(model), ...columnPictures(model), kernelShares(model)].filter(Boolean);
    return make(
      "div",
      {},
      parts.length ? make("div", { class: "grid" }, parts) : null,
      effectsPicture(model),
    );
  });
}

function variancePicture(model) {
  if (!model.variance.length) return null;
  return barPicture({
    title: "Shares of variance",
    note:
      "How much of the variation of targets each part of the model stands for. Level: between the levels of tasks; linear, common smooth, additive: what columns do in all tasks alike; slopes, own smooth: what they do in each task.",
    records: model.variance.map(([part, share]) => ({ part, share })),
    field: "part",
    value: "share",
    title_x: "share of the variance",
    format: ".0%",
    ends: false,
  });
}

function columnPictures(model) {
  const D = model.drivers, found = [];
  if (D.effects.length) {
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
        `How far the ${D.quantity} of a row moves while one column takes its values and the others stay: mean over ${D.rows} rows of all tasks, and the middle 90% of them.${
          D.fixed.length ? ` Not varied: ${D.fixed.join(", ")} (dates).` : ""
        }`,
      field: "column",
      value: "change",
      title_x: `change of the ${D.quantity}`,
      format: ".3~g",
      ends: true,
    }));
  }
  if (D.shares.length) {
    found.push(barPicture({
      title: "Columns by what they explain",
      note: "The share of each column in what all columns explain.",
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
  const records = K.names.map((kernel, k) => ({ kernel, share: mean(K.shares.map((row) => row[k])) })).filter((r) =>
    r.share > .0005
  ).sort((a, b) => b.share - a.share).slice(0, 12);
  return records.length
    ? barPicture({
      title: "Kernels",
      note: `Mean over tasks of their share in the kernel weights${
        K.grouped ? `; the ${K.count} kernels are shown in groups` : ""
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
    spec: (width, c) => ({
      height: 24 * records.length,
      data: { values: records },
      encoding: {
        y: {
          field,
          type: "nominal",
          sort: null,
          title: null,
          axis: { labelColor: c.ink, labelLimit: Math.min(200, width * .42), domain: false },
        },
      },
      layer: [
        {
          mark: { type: "bar", cornerRadius: 2, height: 13 },
          encoding: {
            x: { field: value, type: "quantitative", title: title_x, axis: { format, tickCount: 5 } },
            tooltip: Object.keys(records[0]).map((name) =>
              name === field ? { field: name } : { field: name, format: format === ".0%" ? ".1%" : format }
            ),
          },
        },
        ...(ends
          ? [{
            mark: { type: "rule", color: c.soft, aria: false },
            encoding: { x: { field: "low", type: "quantitative" }, x2: { field: "high" } },
          }]
          : []),
      ],
    }),
  });
}

function effectsPicture(model) {
  const D = model.drivers;
  if (!D.effects.length) return make("p", { class: "soft" }, `Effects of columns are not available: ${D.reason}.`);
  const records = D.effects.flatMap((effect) =>
    effect.values.map((value, v) => ({
      column: withUnit(effect),
      number: effect.number,
      value,
      mean: effect.mean[v],
      mean_low: effect.mean_low[v],
      mean_high: effect.mean_high[v],
      low: effect.low[v],
      high: effect.high[v],
    }))
  );
  const span = extent(records.flatMap((record) => [record.low, record.high])),
    names = [...new Set(records.map((record) => record.column))];
  return make(
    "div",
    { style: "margin-top:22px" },
    picture({
      title: "Effect of each column",
      label: `Mean ${D.quantity} by the value of each of ${names.length} columns`,
      records: () => records,
      note:
        `Line: the mean ${D.quantity} where the column has this value in all of the ${D.rows} rows, with a 95% interval over rows (dark). Light band: where 90% of the rows are, each relative to its own level. These are effects in the model, which need not be causes.`,
      spec: (width, c) => {
        const columns = Math.max(1, Math.min(Math.floor(width / 250), 6, names.length)),
          each = Math.floor(width / columns) - (columns > 1 ? 50 : 58);
        return {
          width: undefined,
          autosize: { type: "pad" },
          columns,
          spacing: { row: 18, column: 34 },
          concat: names.map((name) =>
            effectPanel(records.filter((record) => record.column === name), name, each, span, c)
          ),
        };
      },
    }),
  );
}

/* The name of a column with its unit, unless the name has it already. */
const withUnit = ({ name, unit }) => unit && !name.includes(unit) ? `${name} (${unit})` : name;

function effectPanel(values, name, width, domain, c) {
  const type = values[0].number ? "quantitative" : "nominal",
    x = {
      field: "value",
      type,
      title: null,
      sort: null,
      axis: { tickCount: 4, labelAngle: 0, labelOverlap: true, labelLimit: 70, grid: false },
      ...(values[0].number ? { scale: { zero: false, nice: false } } : {}),
    };
  const y = (field) => ({
    field,
    type: "quantitative",
    title: null,
    scale: { domain, zero: false, nice: false },
    axis: { tickCount: 4 },
  });
  const tooltip = [{ field: "value" }, { field: "mean", format: ".4~g" }, {
    field: "low",
    title: "90% from",
    format: ".4~g",
  }, { field: "high", title: "to", format: ".4~g" }];
  const band = (low, high, opacity) =>
    values[0].number
      ? { mark: { type: "area", opacity, aria: false }, encoding: { x, y: y(low), y2: { field: high } } }
      : {
        mark: { type: "bar", opacity, width: { band: .5 }, aria: false },
        encoding: { x, y: y(low), y2: { field: high } },
      };
  return {
    title: { text: name, anchor: "start", fontSize: 12, fontWeight: 600, color: c.ink, limit: width, offset: 6 },
    width,
    height: 120,
    data: { values },
    layer: [
      band("low", "high", .15),
      band("mean_low", "mean_high", .35),
      ...(values[0].number ? [{ mark: { type: "line" }, encoding: { x, y: y("mean") } }] : []),
      { mark: { type: "point", size: values[0].number ? 16 : 45, opacity: 1 }, encoding: { x, y: y("mean"), tooltip } },
    ],
  };
}
