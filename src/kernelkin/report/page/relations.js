/* The first names, as many as 200 letters hold. */
function firstNames(names) {
  let letters = 0;
  const shown = names.filter((name, k) => (letters += name.length) <= 200 || !k), more = names.length - shown.length;
  return shown.join("; ") + (more ? ` and ${more} more` : "");
}

/* Similar groups: only what a test has found. */
function relationsSection(models) {
  return modelSection("relations", "Which groups are alike", models.filter((model) => model.relation), relationPart);
}

function relationPart(model) {
  const L = model.relation;
  // The clusters are in the table, and their likeness is in the picture: of two, there is one number and no picture.
  const words = L.text.slice(L.headline.length).trim(),
    drawn = L.matrix?.length > 2,
    said = drawn ? /^Clusters: .*Likeness between clusters: \S+ (to \S+ )?/s : /^Clusters: .*(?=Likeness between)/s,
    rest = L.groups ? words.replace(said, "") : words;
  const part = make("div", {}, make("p", {}, make("strong", {}, L.headline), rest ? ` ${minus(rest)}` : ""));
  if (!L.groups) return part;
  const groups = range(Math.max(...L.groups) + 1).map((g) => ({
    group: g + 1,
    tasks: model.tasks.filter((_, t) => L.groups[t] === g).sort((a, b) => compare(a, b, 1)),
  }));
  const table = dataTable({
    caption: "Clusters of groups",
    file: "clusters",
    rows: groups,
    columns: [
      { title: "cluster", value: (r) => r.group },
      { title: "groups", value: (r) => r.tasks.length },
      {
        title: "names",
        left: true,
        value: (r) => r.tasks.join("; "),
        show: (_, r) => firstNames(r.tasks),
      },
    ],
  });
  part.append(
    make(
      "div",
      { class: "grid" },
      drawn ? likenessPicture(L, groups) : null,
      L.matrix ? null : make(
        "p",
        { class: "soft" },
        "There are too many clusters to draw all pairs; the table has the groups of each.",
      ),
      table.element,
    ),
  );
  return part;
}

function likenessPicture(L, groups) {
  const records = L.matrix.flatMap((row, g) =>
    row.map((likeness, h) => ({
      first: `cluster ${g + 1}`,
      second: `cluster ${h + 1}`,
      likeness,
      tasks: `${groups[g].tasks.length} and ${groups[h].tasks.length}`,
      label: likeness.toFixed(2).replace("-", "−"),
    }))
  );
  const few = groups.length <= 10;
  return picture({
    title: "Likeness of the clusters",
    note:
      "1: the functions are equal up to their level; 0: they have nothing in common; −1: opposite. Corrected for noise; within a cluster, groups could not be told apart.",
    label: `Likeness of ${groups.length} clusters of groups`,
    records: () => records.map(({ label, ...record }) => record),
    spec: (width, c) => ({
      height: Math.min(width * .75, 46 * groups.length + 20, 420),
      data: {
        values: records.map((record) => ({
          ...record,
          dark: isDarkCell(Math.abs(record.likeness), c.raised, record.likeness < 0 ? c.second : c.accent),
        })),
      },
      encoding: {
        x: {
          field: "first",
          type: "nominal",
          sort: null,
          title: null,
          axis: { orient: "top", labelAngle: few ? 0 : -90, domain: false },
        },
        y: { field: "second", type: "nominal", sort: null, title: null, axis: { domain: false } },
      },
      layer: [
        {
          mark: { type: "rect", stroke: c.paper, strokeWidth: 2 },
          encoding: {
            color: {
              field: "likeness",
              type: "quantitative",
              scale: { domain: [-1, 0, 1], range: [c.second, c.raised, c.accent], interpolate: "rgb" },
              legend: null,
            },
            tooltip: [{ field: "first" }, { field: "second" }, { field: "likeness", format: ".2f" }, {
              field: "tasks",
            }],
          },
        },
        ...(few
          ? [{
            mark: { type: "text", aria: false },
            encoding: cellText("label"),
          }]
          : []),
      ],
    }),
  });
}
