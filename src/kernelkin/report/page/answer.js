/* The first screen: how good, compared with what, and whether to use it. */
function answerSection(models) {
  const section = make(
    "section",
    { id: "answer", "aria-labelledby": "answer-title", tabindex: "-1" },
    make("h2", { id: "answer-title", class: "hidden" }, "The answer"),
  );
  if (models.length === 1) section.append(answer(models[0]));
  else {section.append(
      make(
        "div",
        { class: "pair" },
        models.map((model) => make("div", { class: "of-model" }, make("h3", {}, model.name), answer(model))),
      ),
      versus(models),
    );}
  return section;
}

/* What the comparison with simpler models says: words, a colour, and a sentence. */
function judgement(model) {
  const E = model.evaluation, C = model.comparison;
  if (!E && !C) {
    return [
      "Not tested",
      "plain",
      "No rows were held out when this model was saved, so nothing can be said about how well it predicts. Score it on a labelled table: kernelkin report MODEL --test FILE.",
    ];
  }
  if (!C) return uncompared(E);
  const others = C.models.filter((other) => !other.ours);
  if (C.score === "R²" && Math.max(...C.models.map((other) => other.mean)) <= 0) {
    return ["No model predicts better than the mean", "bad", C.verdict];
  }
  if (others.some((other) => other.sign < 0)) return [`${bestOther(C).title} is better here`, "bad", C.verdict];
  if (others.every((other) => other.sign > 0)) {
    return [`Use this model: ahead of all ${others.length} it was compared with`, "good", C.verdict];
  }
  return [`Not clearly better than ${lower(bestOther(C).title)}`, "warn", C.verdict];
}

function uncompared(E) {
  const head = E.mean || E.pooled;
  const words = head
    ? `${capital(E.score)} of ${score(head[0])} on held-out rows`
    : "Too few test rows to judge";
  const why = E.n_scored
    ? "It was not compared with simpler models: pass sharing=sharing_report(model, X, y, tasks), or use kernelkin fit, which compares."
    : `No task has ${E.min_rows} test rows, too few for a score of its own or a comparison with simpler models.`;
  return [words, "plain", why];
}

const PILLS = {
  good: "Ahead of the baselines",
  warn: "Level with a baseline",
  bad: "Behind a baseline",
  plain: "No comparison",
};

function answer(model) {
  const E = model.evaluation, [words, tone, why] = judgement(model);
  const left = make(
    "div",
    {},
    make("span", { class: `pill ${tone}` }, E || model.comparison ? PILLS[tone] : "Not tested"),
    make("p", { class: "verdict" }, words),
    make("p", {}, sentence(why)),
  );
  const C = model.comparison, measured = E ? `Scores are of ${E.source}.` : "";
  const compared = C ? ` The comparison is by ${C.how}.` : "";
  left.append(
    keyFigures(model),
    make("p", { class: "soft small", style: "margin-top:14px" }, `${measured}${compared}`.trim()),
  );
  return make(
    "div",
    { class: "answer" },
    left,
    C ? comparisonPicture(C) : E && E.mean && E.n_scored > 1 ? scoresPicture(model) : null,
  );
}

const sentence = (words) => capital(words) + (/[.!?]$/.test(words) ? "" : ".");

function keyFigures(model) {
  const facts = [...scoreFigures(model.evaluation), ...gainFigures(model.comparison)];
  if (model.evaluation) facts.push(...errorFigures(model.evaluation, model.data));
  return make(
    "dl",
    { class: "figures" },
    facts.map(([name, value, note]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, value, make("span", {}, note)))
    ),
  );
}

function scoreFigures(E) {
  const facts = [];
  if (E && E.mean) {
    facts.push([
      `${capital(E.score)}, mean over tasks`,
      score(E.mean[0]),
      `${percent(E.level)} interval ${interval(E.mean[1], E.mean[2])}`,
    ]);
  }
  if (E && E.pooled && (!E.mean || E.kind === "regression")) {
    facts.push([
      `${capital(E.score)}, all rows together`,
      score(E.pooled[0]),
      `${percent(E.level)} interval ${interval(E.pooled[1], E.pooled[2])}`,
    ]);
  }
  return facts;
}

function gainFigures(C) {
  if (!C) return [];
  const best = bestOther(C), ends = interval(best.gain[1], best.gain[2], signed);
  return [[`Gain on ${lower(best.title)}`, signed(best.gain[0]), `${percent(C.level)} interval ${ends}`]];
}

function errorFigures(E, data) {
  const facts = [];
  if (E.kind === "regression") {
    facts.push(["Typical error", text(E.error), `mean absolute error${data ? ` of ${data.target}` : ""}`]);
    facts.push([`In their ${percent(E.coverage)} interval`, percent(E.covered, 1), "of the targets"]);
  } else facts.push(["Right class", percent(correct(E), 1), "of the rows"]);
  facts.push(["Test rows", E.n_rows.toLocaleString("en"), `of ${plural(E.test_rows.filter(Boolean).length, "task")}`]);
  return facts;
}

const correct = (E) => sum(E.confusion.map((row, k) => row[k])) / Math.max(sum(E.confusion.flat()), 1);
/* The simpler model that the recommendation is about: the best of those that are better, else of those that are level,
   else of all. */
function bestOther(compared) {
  const others = compared.models.filter((other) => !other.ours).sort((a, b) => b.mean - a.mean);
  return others.find((other) => other.sign < 0) || others.find((other) => other.sign === 0) || others[0];
}
const lower = (words) => words.charAt(0).toLowerCase() + words.slice(1);
const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);

/* Models by their mean score; the line at a model is the interval of what it lacks to this model. */
function comparisonPicture(C) {
  const ours = C.models.find((other) => other.ours);
  const records = [...C.models].sort((a, b) => b.mean - a.mean).map((other) => ({
    model: other.title,
    about: other.about,
    mean: other.mean,
    low: other.gain ? ours.mean - other.gain[2] : null,
    high: other.gain ? ours.mean - other.gain[1] : null,
    gain: other.gain ? `${signed(other.gain[0])} (${interval(other.gain[1], other.gain[2], signed)})` : "",
    kind: other.ours ? "ours" : "other",
  }));
  const tooltip = [["model", "model"], ["about", "scores"], ["mean", C.score], [
    "gain",
    "gain of this model",
  ]].map(([field, title]) => ({ field, title }));
  return picture({
    title: `${capital(C.score)} of this model and of simpler ones`,
    note: `${C.n_rows.toLocaleString("en")} test rows of ${plural(C.n_tasks, "task")}. Lines: ${
      percent(C.level)
    } intervals of the difference to this model; where a line crosses the dashed one, the two are not clearly different.`,
    label: `${C.score} of ${records.map((record) => `${record.model} ${score(record.mean)}`).join(", ")}`,
    records: () => records.map(({ kind, ...record }) => record),
    spec: (width, c) => ({
      height: 36 * records.length,
      data: { values: records },
      encoding: {
        y: {
          field: "model",
          type: "nominal",
          // The layers have different rows: without it, those of the first come first.
          scale: { domain: records.map((record) => record.model) },
          title: null,
          axis: { labelColor: c.ink, labelLimit: Math.min(230, width * .45), domain: false },
        },
      },
      layer: [
        {
          data: { values: [{ ours: ours.mean }] },
          mark: { type: "rule", strokeDash: [4, 4], color: c.soft, aria: false },
          encoding: { x: { field: "ours", type: "quantitative" }, y: null },
        },
        {
          mark: { type: "rule", strokeWidth: 2, color: c.soft, aria: false },
          encoding: {
            x: { field: "low", type: "quantitative", scale: { zero: false }, title: C.score },
            x2: { field: "high" },
          },
        },
        {
          mark: { type: "point", filled: true, size: 110, opacity: 1 },
          encoding: {
            x: { field: "mean", type: "quantitative" },
            tooltip,
            color: { field: "kind", scale: { domain: ["ours", "other"], range: [c.accent, c.soft] }, legend: null },
          },
        },
        {
          mark: { type: "text", dy: -13, fontSize: 11, color: c.ink },
          encoding: { x: { field: "mean", type: "quantitative" }, text: { field: "mean", format: ".3f" } },
        },
      ],
    }),
  });
}

/* Without a comparison: the scores of the tasks with their intervals, or of many tasks how they are spread. */
const FEW_TASKS = 16;

function scoresPicture(model) {
  const E = model.evaluation;
  const records = model.tasks.map((task, t) => ({
    task,
    score: E.task_score[t],
    low: E.task_low[t],
    high: E.task_high[t],
    rows: E.test_rows[t],
  })).filter((record) => known(record.score)).sort((a, b) => b.score - a.score);
  const few = records.length <= FEW_TASKS;
  return picture({
    title: `${capital(E.score)} of the tasks`,
    note: `The median is ${score(E.median)}. ${few ? `Lines: ${percent(E.level)} intervals.` : ""}`,
    label: `${E.score} of ${records.length} tasks`,
    records: () => records,
    spec: (width, c) => few ? taskDots(records, E, width, c) : scoreHistogram(records, E, c),
  });
}

function taskDots(records, E, width, c) {
  const tooltip = [{ field: "task" }, { field: "score", format: ".3f", title: E.score }, { field: "rows" }];
  const limit = Math.min(200, width * .4);
  return {
    height: 26 * records.length,
    data: { values: records },
    encoding: {
      y: { field: "task", type: "nominal", sort: null, title: null, axis: { labelLimit: limit, domain: false } },
    },
    layer: [
      {
        mark: { type: "rule", strokeWidth: 2, color: c.soft, aria: false },
        encoding: {
          x: { field: "low", type: "quantitative", scale: { zero: false }, title: E.score },
          x2: { field: "high" },
        },
      },
      {
        mark: { type: "point", size: 80, opacity: 1 },
        encoding: { x: { field: "score", type: "quantitative" }, tooltip },
      },
    ],
  };
}

const scoreHistogram = (records, E, c) => ({
  height: 190,
  data: { values: records },
  mark: { type: "bar", color: c.accent, cornerRadius: 2 },
  encoding: {
    x: { field: "score", bin: { maxbins: 24 }, title: E.score },
    y: { aggregate: "count", title: "tasks", axis: { tickMinStep: 1 } },
    tooltip: [{ field: "score", bin: { maxbins: 24 }, title: E.score }, { aggregate: "count", title: "tasks" }],
  },
});

/* ---- two models ---- */
function versus([first, second]) {
  const [A, B] = [first.evaluation, second.evaluation];
  if (!A || !B || !A.mean || !B.mean) {
    return make("p", { class: "soft" }, "The two models cannot be compared: one of them was not tested.");
  }
  const place = new Map(second.tasks.map((task, t) => [task, t]));
  const records = first.tasks.map((task, t) => ({
    task,
    a: A.task_score[t],
    b: place.has(task) ? B.task_score[place.get(task)] : null,
  })).filter((r) => known(r.a) && known(r.b));
  const same = A.source === B.source && A.n_rows === B.n_rows,
    gains = records.map((r) => r.b - r.a),
    ahead = gains.filter((gain) => gain > 0).length;
  const span = extent(records.flatMap((r) => [r.a, r.b]));
  const words = records.length
    ? `On ${plural(records.length, "task")} that both have, ${second.name} scores ${
      signed(mean(gains))
    } on average compared with ${first.name}; it is ahead in ${ahead} and behind in ${
      gains.filter((gain) => gain < 0).length
    }. ` +
      (same && A.source.startsWith("a labelled table")
        ? "Both were tested on the same rows."
        : "The models may have been tested on different rows: pass --test FILE to test both on the same.")
    : "The two models have no scored task in common.";
  return make(
    "div",
    { class: "grid" },
    make("div", {}, make("h3", {}, "Side by side"), make("p", {}, words)),
    records.length > 1
      ? picture({
        title: `${capital(A.score)} of each task by both models`,
        note: `Above the line, ${second.name} is better.`,
        label: `Scores of ${records.length} tasks by ${first.name} and ${second.name}`,
        records: () => records.map((r) => ({ task: r.task, [first.name]: r.a, [second.name]: r.b })),
        spec: (width, c) => ({
          height: Math.min(width, 320),
          layer: [identity(...span, c), {
            data: { values: records },
            mark: { type: "point", opacity: .7 },
            encoding: {
              x: {
                field: "a",
                type: "quantitative",
                title: first.name,
                scale: { zero: false, domain: span, nice: false },
              },
              y: {
                field: "b",
                type: "quantitative",
                title: second.name,
                scale: { zero: false, domain: span, nice: false },
              },
              tooltip: [{ field: "task" }, { field: "a", title: first.name, format: ".3f" }, {
                field: "b",
                title: second.name,
                format: ".3f",
              }],
            },
          }],
        }),
      })
      : null,
  );
}
