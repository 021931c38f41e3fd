/* How the fit went, what it was fitted to, and how to load it. */
function fitSection(models) {
  return modelSection("fit", "How the fit went", models.filter((model) => model.fit), fitPart);
}

function fitPart(model) {
  const F = model.fit;
  // Shares of variance, members of the average and effects of columns have pictures and a table of their own.
  const words = (F.explanation || "").replace(/^.*?(?=\d+ structures? w)/s, "")
    .replace(/Predictions are their average: .*?%\. ?/s, "")
    .replace(/Columns by what they explain: .*?%\. ?/s, model.drivers.effects.length > 1 ? "" : "$&");
  const part = make("div", {}, words ? make("p", {}, minus(words)) : null, known(F.objective) ? certificate(F) : null);
  const grid = make("div", { class: "grid" });
  if (F.history?.filter(known).length > 2) grid.append(gapPicture(F));
  if (F.members?.length > 1) grid.append(membersTable(F));
  if (grid.children.length) part.append(grid);
  return part;
}

function certificate(F) {
  const what = F.weights ? "choice of kernel weights and functions" : "solution of this model's problem";
  const reached = !known(F.tol)
    ? ""
    : F.relative <= F.tol
    ? ` The requested tolerance, ${text(F.tol)}, was reached.`
    : ` The requested tolerance, ${text(F.tol)}, was not reached: a longer fit (max_iter) may differ.`;
  return make(
    "p",
    {},
    `The objective is ${
      text(F.objective, 6)
    }. Its duality gap proves that no other ${what} has an objective lower by more than ${text(F.gap, 2)}, which is ${
      text(F.relative, 2)
    } of it.${reached}`,
  );
}

function membersTable(F) {
  return dataTable({
    caption: "Models that are averaged",
    rows: F.members,
    columns: [
      { title: "structure", left: true, value: (r) => r[0] },
      { title: "mean loss of held-out rows", value: (r) => r[1], show: evenly(F.members.map((r) => r[1])) },
      { title: "weight", value: (r) => r[2], show: (value) => percent(value) },
    ],
  }).element;
}

function gapPicture(F) {
  const records = F.history.map((gap, i) => ({ iteration: i + 1, gap })).filter((record) =>
    known(record.gap) && record.gap > 0
  );
  return picture({
    title: "Relative gap by iteration",
    note: known(F.tol) ? "The dashed line is the requested tolerance." : null,
    label: `Relative duality gap over ${F.history.length} iterations`,
    records: () => records,
    spec: (width, c) => ({
      height: 190,
      data: { values: records },
      layer: [
        {
          mark: { type: "line", point: { size: 28 } },
          encoding: {
            x: {
              field: "iteration",
              type: "quantitative",
              axis: { tickMinStep: 1, format: "d", grid: false },
              scale: { nice: false, zero: false },
            },
            y: {
              field: "gap",
              type: "quantitative",
              title: "relative gap",
              scale: { type: "log" },
              axis: { format: ".0e", tickCount: 5 },
            },
            tooltip: [{ field: "iteration" }, { field: "gap", format: ".2e" }],
          },
        },
        ...(known(F.tol)
          ? [{
            data: { values: [{ tol: F.tol }] },
            mark: { type: "rule", strokeDash: [4, 4], color: c.second, aria: false },
            encoding: { y: { field: "tol", type: "quantitative" } },
          }]
          : []),
      ],
    }),
  });
}

function aboutSection(models) {
  return modelSection(
    "about",
    "Model and data",
    models,
    (model) => make("div", {}, aboutFacts(model), columnsTable(model), loadPart(model)),
  );
}

function aboutFacts(model) {
  const m = model.model,
    d = model.data,
    names = [...model.tasks].sort((a, b) => compare(a, b, 1)),
    facts = [["Model", `${m.name} (${m.class})${m.description ? `: ${m.description}` : ""}`]];
  if (m.reference) facts.push(["Reference", m.reference]);
  facts.push([
    "Parameters",
    Object.entries(m.parameters).map(([name, value]) => `${name}=${value}`).join(", ") || "the defaults",
  ]);
  facts.push([
    "Groups",
    names.length <= 6 ? names.join(", ") : `${names.slice(0, 6).join(", ")} and ${names.length - 6} more`,
  ]);
  model.further.forEach(([name, count]) => facts.push([`Further grouping: ${name}`, plural(count, "group")]));
  if (d) {
    facts.push(["Predicts", d.target], ["Fitted to", `${plural(d.rows, "row")}${d.source ? ` of ${d.source}` : ""}`]);
  }
  if (d?.exposure) facts.push(["Exposure", d.exposure]);
  if (m.command) facts.push(["Made by", shellWords(m.command)]);
  facts.push(["Version", `kernelkin ${m.version}`], [
    "Pictures",
    "Vega-Lite, Vega and Vega-Embed (BSD 3-Clause); the licence is in the source of this page",
  ]);
  return make(
    "dl",
    { class: "facts" },
    facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]),
  );
}

/* A command that breaks between its words, not at hyphens. */
const shellWords = (command) =>
  make("code", {}, command.split(" ").flatMap((word) => [make("span", { class: "word" }, word), " "]));

function columnsTable(model) {
  const d = model.data;
  if (!d) return null;
  const rows = [
    ...d.columns.map(([name, words]) => ({ name, words })),
    ...d.left_out.map(([name, words]) => ({ name, words: `left out: ${words}` })),
  ];
  return dataTable({
    caption: "Columns, and how they were read",
    file: "columns",
    rows,
    columns: [{ title: "column", left: true, value: (r) => r.name }, {
      title: "how",
      left: true,
      value: (r) => r.words,
    }],
  }).element;
}

function loadPart(model) {
  const file = JSON.stringify(model.load.file), table = model.load.table;
  const python = table
    ? `import pandas as pd\nfrom kernelkin import load_model\n\nsaved = load_model(${file})\nsaved.predict(pd.read_csv("new.csv"))  # the columns of the training table, in any order`
    : `from kernelkin import load_model, save_model\n\nsave_model(model, ${file})\nload_model(${file}).model.predict(X, tasks=tasks)`;
  return make(
    "details",
    {},
    make("summary", {}, "How to use the model"),
    make("pre", {}, make("code", {}, python)),
    table ? make("pre", {}, make("code", {}, `kernelkin predict ${model.load.file} new.csv -o predictions.csv`)) : null,
  );
}
