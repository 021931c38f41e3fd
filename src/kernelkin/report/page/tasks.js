/* Group by group: small pictures and a table. Only the groups of one page are in the document. */
const MULTIPLES = 12;

function tasksSection(models) {
  return modelSection("tasks", "Group by group", models.filter((model) => model.tasks.length > 1), taskPanel);
}

/* The values of each task, as records. The tested tasks may be others than those of the fit. */
function taskRecords(model) {
  const E = model.evaluation, place = new Map(model.tasks.map((task, t) => [task, t]));
  return (E ? E.tasks : model.tasks).map((task, t) => {
    const own = place.get(task), group = model.relation?.groups?.[own];
    return {
      task,
      rows: model.rows?.[own] ?? null,
      tested: E ? E.test_rows[t] : null,
      score: E ? E.task_score[t] : null,
      error: E ? E.task_error[t] : null,
      level: model.groups?.level[own] ?? null,
      group: known(group) ? group + 1 : null,
    };
  });
}

const scoreForm = (E, records) =>
  E.score === "RMSE" ? evenly(records.map((record) => record.score), 4) : scoreText(E.score);

/* What is the same for all groups is left out. */
function taskColumns(model, records) {
  const E = model.evaluation,
    varies = (name) => new Set(records.map((record) => record[name])).size > 1;
  const columns = [{ title: "group", value: (r) => r.task, left: true }];
  const add = (name, column) => {
    if (varies(name)) columns.push({ value: (r) => r[name], ...column });
  };
  if (E) {
    add("score", { title: E.score, show: scoreForm(E, records) });
    const title = E.kind === "regression" ? "mean absolute error" : "mean probability of wrong classes";
    add("error", { title, show: evenly(records.map((record) => record.error)) });
  }
  add("level", { title: "level", show: evenly(records.map((record) => record.level)) });
  add("rows", { title: "rows" });
  if (records.some((record) => record.tested !== record.rows)) add("tested", { title: "test rows" });
  add("group", { title: "cluster" });
  return columns;
}

function taskPanel(model) {
  // Group 5 is before group 10.
  const records = taskRecords(model).sort((a, b) => compare(a.task, b.task, 1)),
    E = model.evaluation,
    state = { found: records, page: 0 };
  const search = make("input", {
    type: "search",
    placeholder: "Search groups",
    "aria-label": "Search groups by name",
    class: "task-search",
    oninput: () => {
      state.page = 0;
      update();
    },
  });
  const scored = records.some((record) => known(record.score)), sign = E && E.score !== "RMSE" ? 1 : -1;
  const orders = [
    ["worst", E && `worst ${E.score} first`, (a, b) => compare(a.score, b.score, sign)],
    ["best", E && `best ${E.score} first`, (a, b) => compare(a.score, b.score, -sign)],
    ["rows", "fewest rows first", (a, b) => compare(a.rows ?? a.tested, b.rows ?? b.tested, 1)],
    ["name", "by name", (a, b) => compare(a.task, b.task, 1)],
  ];
  const columns = taskColumns(model, records);
  if (!scored && columns.length === 1) return null;
  const order = make("select", {
    onchange: () => {
      state.page = 0;
      update();
    },
  }, orders.map(([value, title]) => make("option", { value }, title)));
  const count = make("span", { class: "soft small", role: "status" });
  const back = make("button", {
    type: "button",
    "aria-label": "Previous groups",
    onclick: () => {
      state.page -= 1;
      update();
    },
  }, "‹");
  const next = make("button", {
    type: "button",
    "aria-label": "Next groups",
    onclick: () => {
      state.page += 1;
      update();
    },
  }, "›");
  const pager = make("span", { class: "pager" }, back, next);
  const table = dataTable({
    caption: "All groups",
    file: "groups",
    columns,
    rows: records,
  });
  const shown = () =>
    state.found.filter((record) => record.tested).slice(state.page * MULTIPLES, (state.page + 1) * MULTIPLES);
  const multiples = scored ? multiplesPicture(model, shown) : null;
  const picture = multiples && figures.at(-1);

  function update() {
    const words = search.value.trim().toLowerCase(), order_by = orders.find(([value]) => value === order.value)[2];
    const matching = records.filter((record) => record.task.toLowerCase().includes(words));
    state.found = [...matching].sort(order_by);
    const from = state.page * MULTIPLES;
    const pictures = multiples ? `Pictures: ${from + 1} to ${Math.min(from + MULTIPLES, state.found.length)} of ` : "";
    count.textContent = state.found.length
      ? `${pictures}${plural(state.found.length, "group")}${words ? ` that match (of ${records.length})` : ""}`
      : "No group has this name.";
    pager.hidden = !multiples || state.found.length <= MULTIPLES;
    back.disabled = state.page === 0;
    next.disabled = from + MULTIPLES >= state.found.length;
    table.setRows(matching);
    if (!picture) return;
    multiples.hidden = !state.found.length;
    draw(picture);
  }
  search.dispatchEvent(new Event("input"));
  return make(
    "div",
    {},
    make(
      "div",
      { class: "tools" },
      search,
      multiples ? make("label", {}, make("span", { class: "soft" }, "Order"), order) : null,
      pager,
      count,
    ),
    multiples,
    E && !multiples
      ? make("p", { class: "soft small" }, `No group has ${E.min_rows} test rows, the fewest for a score of its own.`)
      : null,
    table.element,
  );
}

/* One small picture for each task of the page. */
function multiplesPicture(model, shown) {
  const E = model.evaluation,
    numeric = E.kind === "regression",
    all = sampleRecords(model),
    two = !numeric && E.classes.length === 2;
  const span = numeric ? extent(all.flatMap((r) => [r.actual, r.predicted])) : null;
  const form = scoreForm(E, taskRecords(model)), few = E.task_score.some((value, t) => E.test_rows[t] && !known(value));
  const byTask = new Map(E.tasks.map((task) => [task, []]));
  all.forEach((record) => byTask.get(record.task).push(record));
  const title = (record, width) =>
    `${wrap(record.task, width, 600)}\n${
      known(record.score) ? `${E.score} ${form(record.score)}` : plural(record.tested, "test row")
    }`;
  // Names of classes beside the pictures are in lines, in smaller letters than `wrap` measures.
  const short = (name) => numeric ? name : wrap(name, 76);
  const values = (width = 200) =>
    shown().flatMap((record) =>
      byTask.get(record.task).map((row) => ({ ...row, row: short(row.actual), title: title(record, width) }))
    );
  const note = numeric
    ? "Each picture is a group: actual by predicted values, on the same scales."
    : two
    ? `Each picture is a group: the probability of “${
      E.classes[1]
    }” for rows of either class. The further apart the classes are, the better.`
    : "Each picture is a group: rows by actual class (down) and predicted class (across), in the same order; right ones are blue, wrong ones orange; the stronger the colour, the more rows.";
  return picture({
    title: "Predictions of each group",
    note: few ? `${note} Groups with fewer than ${E.min_rows} test rows have no ${E.score}.` : note,
    label: "Small pictures of the predictions of each group on this page",
    records: () => values().map(({ row, ...record }) => record),
    spec: (width, c) => {
      // As many in a row as leave no gap in the last one.
      const room = Math.min(width < 460 ? 2 : Math.floor(width / 215), 6, shown().length),
        columns = shown().length < MULTIPLES
          ? Math.max(1, room)
          : range(room).map((k) => room - k).find((k) => MULTIPLES % k === 0),
        each = Math.floor(width / columns) - (columns > 1 ? 38 : 46),
        rows = values(each),
        classes = numeric ? [] : nameAxis(c, E.classes.map(short), 11);
      const facet = {
        field: "title",
        type: "nominal",
        title: null,
        sort: shown().map((record) => title(record, each)),
        header: { labelAnchor: "start", labelLimit: 0, labelExpr: "split(datum.label, '\\n')" },
      };
      return {
        width: undefined,
        autosize: { type: "pad" },
        data: { values: rows },
        facet,
        columns,
        spacing: { row: 16, column: 26 },
        // Each picture has its own axis, so that none is drawn below the empty places of the last row.
        resolve: { axis: { x: "independent" } },
        spec: {
          width: each,
          height: numeric
            ? Math.min(each * .8, 170)
            : Math.max(two ? 80 : Math.min(each, 170), rowHeight(E.classes.map(short), 0) * E.classes.length),
          ...(numeric ? smallScatter(span, c) : two ? smallStrip(E, classes, c) : smallConfusion(E, classes, c)),
        },
      };
    },
  });
}

const smallAxis = { title: null, tickCount: 3, labelFontSize: 10 };

const smallScatter = (span, c) => ({
  layer: [
    {
      mark: { type: "point", size: 22, opacity: .8 },
      encoding: {
        x: {
          field: "predicted",
          type: "quantitative",
          scale: { domain: span, nice: false, zero: false },
          axis: smallAxis,
        },
        y: {
          field: "actual",
          type: "quantitative",
          scale: { domain: span, nice: false, zero: false },
          axis: smallAxis,
        },
        color: {
          condition: { test: "datum.actual < datum.low || datum.actual > datum.high", value: c.second },
          value: c.accent,
        },
        tooltip: [{ field: "task" }, { field: "predicted", format: DIGITS }, { field: "actual", format: DIGITS }],
      },
    },
    identity(...span, c),
  ],
});

const smallNames = ({ axis, ...names }) => ({
  field: "row",
  ...names,
  axis: { ...axis, labelFontSize: 10, labelPadding: 3 },
});

const smallStrip = (E, classes, c) => ({
  mark: { type: "tick", thickness: 2, opacity: .7 },
  encoding: {
    x: { field: "probability", type: "quantitative", scale: { domain: [0, 1] }, axis: { ...smallAxis, format: ".0%" } },
    y: smallNames(classes),
    color: { field: "actual", legend: null, scale: { domain: E.classes, range: [c.accent, c.second] } },
    tooltip: [{ field: "task" }, { field: "actual" }, { field: "probability", format: ".1%" }],
  },
});

const smallConfusion = (E, classes, c) => ({
  // Cells without rows are seen, too.
  view: { fill: c.raised },
  mark: { type: "rect", stroke: c.paper },
  encoding: {
    x: {
      field: "predicted",
      type: "nominal",
      sort: E.classes,
      title: null,
      scale: { domain: E.classes },
      axis: { labels: false },
    },
    y: smallNames(classes),
    color: { condition: { test: "datum.actual === datum.predicted", value: c.accent }, value: c.second },
    // A single row differs from none.
    opacity: { aggregate: "count", legend: null, scale: { domainMin: 0, range: [.2, 1] } },
    tooltip: [{ field: "task" }, { field: "actual" }, { field: "predicted" }, { aggregate: "count", title: "rows" }],
  },
});
