/* Predicted and actual values, over all groups. */
function predictionsSection(models) {
  return modelSection(
    "predictions",
    "Predicted and actual values",
    models.filter((model) => model.evaluation),
    (model) => model.evaluation.kind === "regression" ? regressionPictures(model) : classPictures(model),
  );
}

const partClass = (model) => model === R.models[1] ? "of-model second" : "of-model";

/* A section with a part for each model. */
function modelSection(id, title, models, body) {
  if (!models.length) return null;
  const parts = models.map((model) => ({ model, content: body(model) })).filter((part) => part.content);
  if (!parts.length) return null;
  const section = make(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    make("h2", { id: `${id}-title` }, title),
  );
  section.append(
    R.models.length === 1 ? parts[0].content : make(
      "div",
      { class: "pair" },
      parts.map((part) =>
        make(
          "div",
          { class: partClass(part.model) },
          make("h3", {}, part.model.name),
          part.content,
        )
      ),
    ),
  );
  return section;
}

function sampleRecords(model) {
  const E = model.evaluation, S = E.sample;
  return S.task.map((t, i) =>
    E.kind === "regression"
      ? {
        task: E.tasks[t],
        actual: S.actual[i],
        predicted: S.predicted[i],
        ...(S.low ? { low: S.low[i], high: S.high[i] } : {}),
        error: S.actual[i] - S.predicted[i],
      }
      : {
        task: E.tasks[t],
        actual: E.classes[S.actual[i]],
        predicted: E.classes[S.predicted[i]],
        probability: S.probability[i],
      }
  );
}

function sampleNote(E) {
  const shown = E.sample.task.length;
  return shown < E.n_rows
    ? `${shown.toLocaleString("en")} of ${E.n_rows.toLocaleString("en")} test rows, some of every group. `
    : `${plural(shown, "test row")}. `;
}

function regressionPictures(model) {
  const E = model.evaluation,
    records = sampleRecords(model),
    span = extent(records.flatMap((r) => [r.actual, r.predicted])),
    across = extent(records.map((r) => r.predicted));
  const target = model.data ? model.data.target : "target",
    opacity = records.length > 1000 ? .3 : records.length > 200 ? .55 : .8;
  const tooltip = ["task", "predicted", "actual", ...(known(E.covered) ? ["low", "high"] : [])].map((field) =>
    field === "task"
      ? { field }
      : { field, format: DIGITS, title: { low: "interval from", high: "interval to" }[field] || field }
  );
  const quantitative = (field, title, domain = null) => ({
    field,
    type: "quantitative",
    title: wrap(title, 250).split("\n"),
    scale: { zero: false, ...(domain ? { domain, nice: false } : {}) },
    axis: { tickCount: 6, labelOverlap: true },
  });
  return make(
    "div",
    { class: "grid" },
    picture({
      title: "Predicted and actual",
      note: `${sampleNote(E)}On the line, the prediction is right.${
        known(E.covered)
          ? ` ${percent(E.covered, 1)} of the targets are in their ${
            percent(E.coverage)
          } interval; those outside are orange.`
          : ""
      }`,
      label: `Actual by predicted ${target} for ${records.length} rows`,
      records: () => records,
      spec: (width, c) => ({
        height: Math.min(width * .8, 380),
        layer: [
          {
            data: { values: records },
            mark: { type: "point", opacity, size: 22 },
            encoding: {
              x: quantitative("predicted", `predicted ${target}`, span),
              y: quantitative("actual", `actual ${target}`, span),
              tooltip,
              color: {
                condition: { test: "datum.actual < datum.low || datum.actual > datum.high", value: c.second },
                value: c.accent,
              },
            },
          },
          identity(...span, c),
        ],
      }),
    }),
    picture({
      title: "Residuals by prediction",
      note: "Actual minus predicted. A pattern here is something that the model misses.",
      label: `Residuals by predicted ${target}`,
      records: () => records,
      spec: (width, c) => ({
        height: Math.min(width * .8, 380),
        layer: [
          {
            data: { values: records },
            mark: { type: "point", opacity, size: 22 },
            encoding: {
              x: quantitative("predicted", `predicted ${target}`, across),
              y: quantitative("error", "actual − predicted"),
              tooltip,
            },
          },
          {
            data: { values: [{ zero: 0 }] },
            mark: { type: "rule", color: c.soft, strokeDash: [4, 4], aria: false },
            encoding: { y: { field: "zero", type: "quantitative" } },
          },
        ],
      }),
    }),
    picture({
      title: "Distribution of the residuals",
      note: `The mean absolute error is ${figure(E.error)}.`,
      label: "Histogram of the residuals",
      records: () => records.map((r) => ({ task: r.task, error: r.error })),
      spec: (width, c) => ({
        height: Math.min(width * .8, 380),
        data: { values: records },
        mark: { type: "bar", cornerRadius: 2 },
        encoding: {
          x: {
            field: "error",
            bin: { maxbins: 30 },
            title: "actual − predicted",
            axis: { values: roundNumbers(records.map((record) => record.error)), format: DIGITS, labelOverlap: true },
          },
          y: { aggregate: "count", title: "rows", axis: { tickMinStep: 1 } },
          tooltip: [{ field: "error", bin: { maxbins: 30 }, title: "residual" }, { aggregate: "count", title: "rows" }],
        },
      }),
    }),
  );
}

function classPictures(model) {
  const E = model.evaluation;
  return make("div", { class: "grid" }, confusionPicture(E), reliabilityPicture(E));
}

function confusionPicture(E) {
  const records = E.confusion.flatMap((row, i) =>
    row.map((rows, j) => ({
      actual: E.classes[i],
      predicted: E.classes[j],
      rows,
      share: rows / Math.max(sum(row), 1),
      label: `${rows.toLocaleString("en")}`,
      under: percent(rows / Math.max(sum(row), 1)),
    }))
  );
  return picture({
    title: "Confusion",
    note: `Test rows by their class (down) and the predicted class (across), with their share of the actual class. ${
      percent(correct(E), 1)
    } are right.`,
    label: `Confusion of ${E.classes.length} classes`,
    records: () => records.map(({ label, under, ...record }) => record),
    spec: (width, c) => {
      const down = E.classes.map((name) => wrap(name, width * .3)),
        beside = Math.max(...down.flatMap((name) => name.split("\n")).map((line) => textWidth(line))) + 45,
        room = (width - beside) / E.classes.length - 6,
        across = namesAcross(E.classes, room),
        widest = Math.max(...records.map((record) => textWidth(record.label) * 14 / 12)),
        lines = room < widest ? [] : room < 30 ? [["label", 14, 0]] : [["label", 14, -7], ["under", 11, 10]];
      return {
        height: Math.max(Math.min(width * .7, 70 * E.classes.length, 420), rowHeight(down, 14) * E.classes.length),
        data: {
          values: records.filter((record) => record.rows).map((record) => ({
            ...record,
            dark: isDarkCell(record.share, c.raised, c.accent),
            row: down[E.classes.indexOf(record.actual)],
            column: across.lines(record.predicted),
          })),
        },
        encoding: {
          x: {
            field: "column",
            type: "nominal",
            scale: { domain: E.classes.map(across.lines) },
            title: "predicted class",
            axis: { ...across.axis, domain: false },
          },
          y: { field: "row", ...nameAxis(c, down), title: "actual class" },
        },
        layer: [
          {
            mark: { type: "rect", stroke: c.paper, strokeWidth: 2 },
            encoding: {
              color: {
                field: "share",
                type: "quantitative",
                scale: between(c.raised, c.accent, [0, 1]),
                legend: null,
              },
              tooltip: [{ field: "actual" }, { field: "predicted" }, { field: "rows" }, {
                field: "under",
                title: "share of the class",
              }],
            },
          },
          ...lines.map(([field, fontSize, dy]) => ({
            mark: { type: "text", fontSize, dy, aria: false },
            encoding: cellText(field),
          })),
        ],
      };
    },
  });
}

const cellText = (field) => ({
  text: { field },
  color: { condition: { test: "datum.dark", value: "#ffffff" }, value: "#000000" },
});

function reliabilityPicture(E) {
  const records = E.reliability.map(([stated, happened, rows]) => {
    // Of few rows, a frequency of 0 or 1 is uncertain too: one row of each kind is added for the error.
    const drawn = (happened * rows + 1) / (rows + 2), error = 2 * Math.sqrt(drawn * (1 - drawn) / rows);
    return { stated, happened, rows, low: Math.max(0, happened - error), high: Math.min(1, happened + error) };
  });
  const two = E.classes.length === 2,
    of = two ? ` of “${E.classes[1]}”` : "",
    what = two
      ? `Test rows in ${records.length} bins by their probability${of}`
      : `The probabilities of all classes for each test row, in ${records.length} bins`;
  return picture({
    title: "Reliability of the probabilities",
    note:
      `${what}. On the line, events with a predicted probability of 70% happen in 70% of the cases. Bars: two standard errors.`,
    label: `Frequency by stated probability${of}`,
    records: () => records,
    spec: (width, c) => ({
      height: Math.min(width * .7, 380),
      layer: [
        identity(0, 1, c),
        {
          data: { values: records },
          mark: { type: "rule", color: c.accent, aria: false },
          encoding: {
            x: { field: "stated", type: "quantitative" },
            y: { field: "low", type: "quantitative" },
            y2: { field: "high" },
          },
        },
        {
          data: { values: records },
          mark: { type: "point", size: 70, opacity: 1 },
          encoding: {
            x: {
              field: "stated",
              type: "quantitative",
              title: "stated probability",
              scale: { domain: [0, 1] },
              // Points at an end do not touch the numbers.
              axis: { format: ".0%", labelPadding: 9 },
            },
            y: {
              field: "happened",
              type: "quantitative",
              title: "frequency",
              scale: { domain: [0, 1] },
              axis: { format: ".0%", labelPadding: 9 },
            },
            tooltip: [{ field: "stated", format: ".1%" }, { field: "happened", format: ".1%", title: "frequency" }, {
              field: "rows",
              title: two ? "rows" : "probabilities",
            }],
          },
        },
      ],
    }),
  });
}
