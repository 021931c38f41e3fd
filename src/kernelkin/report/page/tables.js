/* Tables that can be sorted, searched, paged and downloaded. A column has a `title`, `value(row)` and, for display,
   `show(value, row)`; with `left` it is text. */
const PAGE = 25;

function dataTable({ caption, columns, rows, file }) {
  const state = { rows, sort: null, descending: false, page: 0 };
  const body = make("tbody"),
    heads = columns.map((column, k) =>
      make(
        "th",
        { scope: "col", class: column.left ? "left" : null },
        make("button", { type: "button", onclick: () => sortBy(k) }, column.title),
      )
    );
  const count = make("span", { class: "soft small", role: "status" });
  const back = make("button", { type: "button", onclick: () => turn(-1), "aria-label": "Previous rows" }, "‹");
  const next = make("button", { type: "button", onclick: () => turn(1), "aria-label": "Next rows" }, "›");
  const pager = make("span", { class: "pager" }, back, next);

  function sorted() {
    if (state.sort === null) return state.rows;
    const value = columns[state.sort].value, sign = state.descending ? -1 : 1;
    return [...state.rows].sort((a, b) => compare(value(a), value(b), sign));
  }
  function sortBy(k) {
    state.descending = state.sort === k ? !state.descending : !columns[k].left;
    state.sort = k;
    state.page = 0;
    show();
  }
  function turn(step) {
    state.page += step;
    show();
  }
  function show() {
    const all = sorted(), from = state.page * PAGE, shown = all.slice(from, from + PAGE);
    heads.forEach((head, k) =>
      state.sort === k
        ? head.setAttribute("aria-sort", state.descending ? "descending" : "ascending")
        : head.removeAttribute("aria-sort")
    );
    body.replaceChildren(
      ...shown.map((row) =>
        make(
          "tr",
          {},
          columns.map((column, k) => {
            const value = column.value(row),
              shownText = column.show
                ? column.show(value, row)
                : known(value)
                ? text(value)
                : underscores(value ?? "–");
            return make(k ? "td" : "th", { class: column.left ? "left" : null, scope: k ? null : "row" }, shownText);
          }),
        )
      ),
    );
    pager.hidden = all.length <= PAGE;
    back.disabled = state.page === 0;
    next.disabled = from + PAGE >= all.length;
    count.textContent = all.length > PAGE
      ? `${from + 1} to ${Math.min(from + PAGE, all.length)} of ${all.length.toLocaleString("en")}`
      : "";
  }
  const save = make(
    "div",
    { class: "downloads" },
    make("button", {
      type: "button",
      "aria-label": `Download the table ${caption} as CSV`,
      onclick: () =>
        download(
          `${fileName(file || caption)}.csv`,
          csv(sorted().map((row) => Object.fromEntries(columns.map((column) => [column.title, column.value(row)])))),
          "text/csv",
        ),
    }, "CSV"),
  );
  show();
  const element = make(
    "div",
    { class: "table" },
    make("div", { class: "tools" }, make("h3", { style: "flex:1 1 200px" }, caption), count, pager, save),
    make(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      make("table", {}, make("caption", { class: "hidden" }, caption), make("thead", {}, make("tr", {}, heads)), body),
    ),
  );
  return {
    element,
    setRows(found) {
      state.rows = found;
      state.page = 0;
      show();
    },
  };
}

/* Words that may break after underscores, as names of columns have them. */
const underscores = (words) => String(words).split(/(?<=_)/).flatMap((part) => [part, make("wbr")]);

/* Values that are missing come last, whichever way a table is sorted. */
function compare(a, b, sign) {
  const gone = [a, b].map((value) => value === null || value === undefined || Number.isNaN(value));
  if (gone[0] || gone[1]) return gone[0] - gone[1];
  return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
}
