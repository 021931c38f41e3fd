/* How groups differ: their levels with intervals, their levels without pooling, and the shares of variance. */
const SHOWN_GROUPS = 30;

function groupsSection(models) {
  return modelSection("groups", "How groups differ", models, (model) => {
    const parts = [variancePicture(model), levelsPicture(model)].filter(Boolean);
    return parts.length ? make("div", { class: "stack" }, parts) : null;
  });
}

/* One bar: the share of each part of the model in the variance. */
function variancePicture(model) {
  if (!model.variance.length) return null;
  let from = 0;
  const records = model.variance.map(([part, share]) => ({ part, share, from, to: from += share }));
  const words = records.map((record) => `${record.part} ${percent(record.share)}`);
  const levels = sum(records.filter((record) => record.part.startsWith("levels of")).map((record) => record.share));
  return picture({
    title: `${percent(levels)} of the variation is between the levels of groups`,
    note: `Shares of the variance: ${words.join("; ")}.`,
    label: `Shares of variance: ${words.join(", ")}`,
    records: () => records.map(({ part, share }) => ({ part, share })),
    spec: (width, c) => ({
      height: 46,
      data: { values: records },
      mark: { type: "bar", stroke: c.paper, strokeWidth: 2 },
      encoding: {
        x: {
          field: "from",
          type: "quantitative",
          title: null,
          scale: { domain: [0, 1], nice: false },
          axis: { format: ".0%", tickCount: 5, grid: false },
        },
        x2: { field: "to" },
        color: {
          field: "part",
          sort: null,
          title: null,
          scale: { domain: records.map((record) => record.part), range: shades(records, c) },
          legend: {
            columns: width < 520 ? 1 : 2,
            labelLimit: 0,
            symbolStrokeColor: c.soft,
            symbolStrokeWidth: 1,
          },
        },
        tooltip: [{ field: "part" }, { field: "share", format: ".1%" }],
      },
    }),
  });
}

const shades = (records, c) => {
  const levels = [c.accent, c.bad], others = { a: c.second, e: c.good };
  return records.map(({ part }, k) =>
    part === "noise"
      ? c.line
      : part.startsWith("levels of")
      ? levels[k % 2]
      : others[part.includes("alike") ? "a" : "e"]
  );
};

/* The caterpillar plot. With many groups, the largest and the smallest levels; others are found by name. */
function levelsPicture(model) {
  const G = model.groups;
  if (!G) return null;
  const records = model.tasks.map((group, t) => ({
    group,
    rows: model.rows ? model.rows[t] : null,
    level: G.level[t],
    low: G.low[t],
    high: G.high[t],
    "without pooling": G.raw_level[t],
  })).sort((a, b) => b.level - a.level);
  const half = SHOWN_GROUPS / 2, many = records.length > SHOWN_GROUPS;
  let named = "";
  const matching = () => records.filter((record) => record.group.toLowerCase().includes(named));
  const shown = () => {
    if (named) return matching().slice(0, SHOWN_GROUPS);
    return many ? [...records.slice(0, half), ...records.slice(-half)] : records;
  };
  const element = picture({
    title: "Level of each group",
    note: `Difference in ${G.unit} from the average group, with a ${
      percent(G.coverage)
    } interval. Ring: the level without pooling, from the rows of the group alone; the grey line is the change by pooling.${
      many
        ? ` Of ${records.length} groups, the ${half} with the largest and the ${half} with the smallest level are shown.`
        : ""
    }`,
    label: `Levels of ${records.length} groups, from ${records[0].group} to ${records.at(-1).group}`,
    records: () => records,
    spec: (width, c) => {
      const values = shown().map((record) => ({
          ...record,
          raw: record["without pooling"],
          name: wrap(record.group, width * (width < 480 ? .45 : .36)),
        })
        ),
        names = values.map((record) => record.name);
      // The groups in between have an empty row.
      if (many && !named) names.splice(half, 0, `… ${records.length - values.length} more`);
      const x = (field, more = {}) => ({ field, type: "quantitative", ...more });
      const tooltip = [
        { field: "group" },
        ...["rows", "level", "low", "high", "raw"].map((field) => ({
          field,
          title: field === "raw" ? "without pooling" : field,
          format: DIGITS,
        })),
      ];
      return {
        height: rowHeight(names, values.length > 20 ? 15 : 20) * Math.max(names.length, 1),
        data: { values },
        encoding: { y: { field: "name", ...nameAxis(c, names) } },
        layer: [
          {
            data: { values: [{ zero: 0 }] },
            mark: { type: "rule", strokeDash: [4, 4], color: c.soft, aria: false },
            encoding: { x: { field: "zero", type: "quantitative" }, y: null },
          },
          {
            mark: { type: "rule", color: c.soft, opacity: .45, strokeWidth: 6, aria: false },
            encoding: {
              x: x("raw", {
                title: wrap(`level in ${G.unit}`, width * .5).split("\n"),
                // Rings do not touch the names.
                scale: { zero: false, padding: 8 },
                // Where room is short, the last numbers are left out, and not every other one.
                axis: { tickCount: width < 480 ? 3 : 5, labelOverlap: "greedy" },
              }),
              x2: { field: "level" },
            },
          },
          {
            mark: { type: "rule", color: c.accent, strokeWidth: 2, aria: false },
            encoding: { x: x("low"), x2: { field: "high" } },
          },
          {
            mark: { type: "point", filled: false, size: 110, color: c.second, strokeWidth: 1.6, aria: false },
            encoding: { x: x("raw") },
          },
          { mark: { type: "point", filled: true, size: 52, opacity: 1 }, encoding: { x: x("level"), tooltip } },
        ],
      };
    },
  });
  if (!many) return element;
  const state = figures.at(-1), count = make("span", { class: "soft small", role: "status" });
  const search = make("input", {
    type: "search",
    placeholder: "Show groups by name",
    "aria-label": "Show levels of groups by name",
    oninput: (event) => {
      named = event.target.value.trim().toLowerCase();
      const found = matching().length;
      state.chart.hidden = !found;
      count.textContent = !found
        ? "No group has this name."
        : named && found > SHOWN_GROUPS
        ? `The first ${SHOWN_GROUPS} of ${found} groups that match.`
        : "";
      draw(state);
    },
  });
  element.querySelector(".chart").before(make("div", { class: "tools" }, search, count));
  return element;
}
