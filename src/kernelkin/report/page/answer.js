/* The first screen: how well the model predicts, compared with other models, and whether to use it. */
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
        models.map((model) => make("div", { class: partClass(model) }, make("h3", {}, model.name), answer(model))),
      ),
      versus(models),
    );}
  return section;
}

/* What a comparison with simpler models says: words, and a colour. */
function verdictOn(C, several) {
  const others = C.models.filter((other) => !other.ours), title = bestOther(C).title;
  if (Math.max(...C.models.map((other) => other.mean)) <= C.constant) {
    return [`No model predicts better than the ${C.score === "R²" ? "mean" : "shares of the classes"}`, "bad"];
  }
  if (others.some((other) => other.sign < 0)) return [`${capital(title)} is better here`, "bad"];
  if (others.every((other) => other.sign > 0)) {
    const where = several ? ` on ${C.question}` : "";
    const all = others.length > 1 ? `all ${others.length} models` : "the model";
    return [`Use this model: ahead of ${all} it was compared with${where}`, "good"];
  }
  return [`Not clearly better than ${title}`, "warn"];
}

/* The first words of the answer, a colour, and a sentence. */
function judgement(model) {
  const E = model.evaluation, C = model.comparisons[0];
  if (!E && !C) {
    return [
      "Not tested",
      "plain",
      "No rows were held out when this model was saved, so it is not known how well it predicts. Test it on a labelled table: kernelkin report MODEL --test FILE.",
    ];
  }
  if (!C) {
    return [
      capital(E.overall.map(([name, value]) => `${name} ${scoreText(name)(value)}`).slice(0, 2).join(", ")) +
      " on test rows",
      "plain",
      `It was not compared with simpler models: ${
        model.load.table
          ? "kernelkin fit compares it, without the option --no-comparison"
          : "pass sharing=sharing_report(model, X, y, tasks)"
      }.`,
    ];
  }
  return [...verdictOn(C, model.comparisons.length > 1), C.verdict];
}

const PILLS = {
  good: "Ahead of the baselines",
  warn: "Similar to a baseline",
  bad: "Behind a baseline",
  plain: "No comparison",
};

function answer(model) {
  const E = model.evaluation, [first, ...others] = model.comparisons, [words, tone, why] = judgement(model);
  const left = make(
    "div",
    {},
    make("span", { class: `pill ${tone}` }, E || first ? PILLS[tone] : "Not tested"),
    make("p", { class: "verdict" }, words),
    make("p", {}, unbroken(sentence(minus(why.replace(/^Recommendation: /, "").replaceAll("`", ""))))),
  );
  if (E) left.append(keyFigures(model));
  return make(
    "div",
    {},
    make("div", { class: "answer" }, left, first ? comparisonPicture(first) : E ? scoresPicture(model) : null),
    model.evaluations.length > 1 ? questionsTable(model) : null,
    others.length
      ? make("div", { class: "grid" }, others.map((C) => comparisonPicture(C, `${verdictOn(C)[0]}. `)))
      : null,
  );
}

/* New rows of known groups, later rows of them, and groups never seen have scores of their own. */
function questionsTable(model) {
  const names = model.evaluations[0].overall.map(([name]) => name).filter((name) => name !== "R² within groups"),
    differ = new Set(model.evaluations.map((one) => one.source)).size > 1;
  const columns = [
    {
      title: "question",
      left: true,
      value: (r) => differ ? `${r.question}: ${r.source}` : r.question,
      show: (_, r) => differ ? [r.question, make("div", { class: "soft small" }, r.source)] : r.question,
    },
    ...names.map((name) => ({
      title: name,
      value: (r) => (r.overall.find((one) => one[0] === name) || [])[1],
      show: (value, r) => withInterval(r.overall.find((one) => one[0] === name)),
    })),
  ];
  if (known(model.evaluations[0].covered)) {
    const title = `in ${percent(model.evaluations[0].coverage)} interval`;
    columns.push({ title, value: (r) => r.covered, show: (value) => percent(value, 1) });
  }
  columns.push({ title: "test rows", value: (r) => r.n_rows }, {
    title: "groups",
    value: (r) => r.test_rows.filter(Boolean).length,
  });
  return dataTable({ caption: "How well it predicts", file: "questions", rows: model.evaluations, columns }).element;
}
const withInterval = (one) => {
  if (!one) return "–";
  const [value, low, high] = one.slice(1).map(scoreText(one[0]));
  return `${value} (${low} to ${high})`;
};

/* Words in which the names of options do not break at their hyphens, nor arguments inside. */
const unbroken = (words) =>
  words.split(/(--[a-z-]+|\w+=\w+)/).map((part, k) => k % 2 ? make("span", { class: "word" }, part) : part);
const sentence = (words) => capital(words) + (/[.!?]$/.test(words) ? "" : ".");

function keyFigures(model) {
  const E = model.evaluation, C = model.comparisons[0], target = model.data ? ` of ${model.data.target}` : "";
  const within = E.overall.find(([name]) => name === "R² within groups");
  const facts = E.overall.filter((one) => one !== within).map(([name, value, low, high]) => {
    const form = scoreText(name);
    return [capital(name), form(value), known(low) ? `${percent(E.level)} interval ${interval(low, high, form)}` : ""];
  });
  if (C) {
    const best = bestOther(C), ends = interval(best.gain[1], best.gain[2], signed);
    // The comparison may be on other rows than those of this report.
    const how = C.how === E.source ? "" : `, ${C.how}`;
    facts.push([`Gain over ${best.title}`, signed(best.gain[0]), `${percent(C.level)} interval ${ends}${how}`]);
  }
  if (E.kind === "regression") {
    facts.push(["Typical error", figure(E.error), `mean absolute error${target}`]);
    if (known(E.covered)) {
      facts.push([`In the ${percent(E.coverage)} interval`, percent(E.covered, 1), "of the test rows"]);
    }
  }
  facts.push(["Test rows", E.n_rows.toLocaleString("en"), `of ${plural(E.test_rows.filter(Boolean).length, "group")}`]);
  return make(
    "div",
    {},
    make(
      "dl",
      { class: "figures" },
      facts.map(([name, value, note]) =>
        make("div", {}, make("dt", {}, name), make("dd", {}, value, make("span", {}, note)))
      ),
    ),
    make(
      "p",
      { class: "soft small", style: "margin-top:14px" },
      `${capital(E.question)}: ${E.source}. ` +
        (within ? `R² within groups is ${score(within[1])}. ${E.within_means}. ` : "") +
        (C?.left_out.length ? `Not compared for lack of time: ${C.left_out.join(", ")}.` : ""),
    ),
  );
}

const correct = (E) => sum(E.confusion.map((row, k) => row[k])) / Math.max(sum(E.confusion.flat()), 1);
/* The simpler model that the recommendation is about: the best of those that are better, else of those that are level,
   else of all. */
function bestOther(compared) {
  const others = compared.models.filter((other) => !other.ours).sort((a, b) => b.mean - a.mean);
  return others.find((other) => other.sign < 0) || others.find((other) => other.sign === 0) || others[0];
}
const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);

/* Models by their score. The line at a model is the interval of the difference from this model. */
function comparisonPicture(C, words = "") {
  const sign = C.score === "R²" ? 1 : -1, ours = sign * C.models.find((other) => other.ours).mean;
  const records = [...C.models].sort((a, b) => b.mean - a.mean).map((other) => ({
    model: other.title,
    ...Object.fromEntries(other.scores),
    mean: sign * other.mean,
    low: other.gain ? ours - sign * other.gain[2] : null,
    high: other.gain ? ours - sign * other.gain[1] : null,
    gain: other.gain ? `${signed(other.gain[0])} (${interval(other.gain[1], other.gain[2], signed)})` : "",
    kind: other.ours ? "ours" : "other",
  }));
  const tooltip = ["model", ...C.models[0].scores.map(([name]) => name), "gain"].map((field) => ({
    field: field.replace(/([.[\]])/g, "\\$1"),
    title: field === "gain" ? "gain of this model" : field,
    ...(field === "model" || field === "gain" ? {} : { format: DIGITS }),
  }));
  return picture({
    title: `${capital(C.question)}: ${C.score}${sign > 0 ? "" : ", smaller is better"}`,
    note: `${words}${C.n_rows.toLocaleString("en")} test rows of ${plural(C.n_tasks, "group")}, ${C.how}. Lines: ${
      percent(C.level)
    } intervals of the difference from this model; where a line crosses the dashed one, the two are not clearly different.`,
    label: `${C.score} of ${records.map((record) => `${record.model} ${score(record.mean)}`).join(", ")}`,
    records: () => records.map(({ kind, ...record }) => record),
    spec: (width, c) => {
      const values = records.map((record) => ({ ...record, name: wrap(record.model, width * .36) })),
        names = values.map((record) => record.name);
      return {
        height: rowHeight(names, 36) * records.length,
        data: { values },
        encoding: { y: { field: "name", ...nameAxis(c, names) } },
        layer: [
          {
            data: { values: [{ ours }] },
            mark: { type: "rule", strokeDash: [4, 4], color: c.soft, aria: false },
            encoding: { x: { field: "ours", type: "quantitative" }, y: null },
          },
          {
            mark: { type: "rule", strokeWidth: 2, color: c.soft, aria: false },
            encoding: {
              x: {
                field: "low",
                type: "quantitative",
                // Numbers above the points do not reach the names.
                scale: { zero: false, padding: 20 },
                title: C.score,
                axis: { tickCount: 5 },
              },
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
            // The edge keeps the numbers readable where the dashed line crosses them.
            mark: { type: "text", dy: -13, fontSize: 11, stroke: c.paper, strokeWidth: 4, aria: false },
            encoding: { x: { field: "mean", type: "quantitative" }, text: { field: "mean", format: ".3f" } },
          },
          {
            mark: { type: "text", dy: -13, fontSize: 11, color: c.ink },
            encoding: { x: { field: "mean", type: "quantitative" }, text: { field: "mean", format: ".3f" } },
          },
        ],
      };
    },
  });
}

/* Without a comparison: the scores of groups, one by one if they are few, or their distribution. */
const FEW_BARS = 12;
function scoresPicture(model) {
  const E = model.evaluation;
  const records = E.tasks.map((task, t) => ({ group: task, score: E.task_score[t] }))
    .filter((record) => known(record.score));
  if (records.length < 3) return null;
  const about = {
      title: `${capital(E.score)} of the groups`,
      note: `${plural(records.length, "group")} with at least ${E.min_rows} test rows.`,
    },
    format = E.score === "accuracy" ? ".0%" : ",.3~r",
    bin = { maxbins: 24 };
  if (records.length <= FEW_BARS) {
    const ordered = records.sort((a, b) => b.score - a.score);
    return barPicture({ ...about, records: ordered, field: "group", value: "score", title_x: E.score, format });
  }
  return picture({
    ...about,
    label: `${E.score} of ${records.length} groups`,
    records: () => records,
    spec: (width, c) => ({
      height: 190,
      data: { values: records },
      mark: { type: "bar", color: c.accent, cornerRadius: 2 },
      encoding: {
        x: { field: "score", bin, title: E.score, axis: { format, values: roundNumbers(records.map((r) => r.score)) } },
        y: { aggregate: "count", title: "groups", axis: { tickMinStep: 1 } },
        tooltip: [{ field: "score", bin, title: E.score }, { aggregate: "count", title: "groups" }],
      },
    }),
  });
}

/* ---- two models ---- */
function versus([first, second]) {
  const [A, B] = [first.evaluation, second.evaluation];
  if (!A || !B) return make("p", { class: "soft" }, "The two models cannot be compared: one of them was not tested.");
  const place = new Map(B.tasks.map((task, t) => [task, t]));
  const records = A.tasks.map((task, t) => ({
    task,
    a: A.task_score[t],
    b: place.has(task) ? B.task_score[place.get(task)] : null,
  })).filter((r) => known(r.a) && known(r.b));
  const smaller = A.score === "RMSE",
    better = records.filter((r) => smaller ? r.b < r.a : r.b > r.a).length,
    span = extent(records.flatMap((r) => [r.a, r.b]));
  const scores = A.overall.map(([name, value], k) =>
    `${name} ${[value, B.overall[k]?.[1]].map(scoreText(name)).join(" and ")}`
  );
  const same = A.n_rows === B.n_rows && A.source === B.source && A.source.startsWith("a labelled table");
  const words = `Over all test rows, ${first.name} and ${second.name} have ${scores.join(", ")}. ` +
    (records.length ? `Of ${plural(records.length, "group")}, ${second.name} is better in ${better}. ` : "") +
    (same
      ? "Both were tested on the same rows."
      : "The models may have been tested on different rows: pass --test FILE to test both on the same.");
  const axis = (field, title) => ({
    field,
    type: "quantitative",
    title,
    scale: { zero: false, domain: span, nice: false },
    axis: { tickCount: 5 },
  });
  return make(
    "div",
    { class: "grid" },
    make("div", {}, make("h3", {}, "Side by side"), make("p", {}, words)),
    records.length > 1
      ? picture({
        title: `${capital(A.score)} of each group by both models`,
        note: `${smaller ? "Below" : "Above"} the line, ${second.name} is better.`,
        label: `Scores of ${records.length} groups by ${first.name} and ${second.name}`,
        records: () => records.map((r) => ({ group: r.task, [first.name]: r.a, [second.name]: r.b })),
        spec: (width, c) => ({
          height: Math.min(width, 320),
          layer: [identity(...span, c), {
            data: { values: records },
            mark: { type: "point", opacity: .7 },
            encoding: {
              x: axis("a", first.name),
              y: axis("b", second.name),
              tooltip: [{ field: "task", title: "group" }, { field: "a", title: first.name, format: DIGITS }, {
                field: "b",
                title: second.name,
                format: DIGITS,
              }],
            },
          }],
        }),
      })
      : null,
  );
}
