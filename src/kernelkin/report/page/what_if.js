/* Controls for the columns, and the prediction that follows. */
function whatIf(model) {
  const D = model.drivers, title = make("h3", { style: "margin-top:26px" }, "What if?");
  if (!D.what_if) {
    return make(
      "div",
      { class: "what-if-part" },
      title,
      make(
        "p",
        { class: "soft" },
        `The page cannot predict by itself: ${D.reason}. In Python, load the model and call predict.`,
      ),
    );
  }
  const W = D.what_if,
    F = readFormula(W),
    x = [...W.start],
    output = make("output", {}),
    note = make("p", { class: "soft", style: "margin:2px 0 0" });
  const id = `task-list-${R.models.indexOf(model)}`;
  const task = make(
    "select",
    { id, onchange: update, "aria-label": "Task to predict" },
    model.tasks.map((name, t) => make("option", { value: t }, name)),
  );

  function update() {
    const found = predictFormula(F, x, Number(task.value));
    output.value = W.output.kind === "probability" ? percent(found.value, 1) : text(found.value, 4);
    output.dataset.value = found.value;
    output.dataset.low = found.low;
    output.dataset.high = found.high;
    note.textContent = known(found.low)
      ? `${percent(W.output.coverage)} interval: ${text(found.low, 4)} to ${text(found.high, 4)}`
      : W.output.kind === "probability"
      ? ""
      : "The width of the interval depends on all training rows: kernelkin predict --interval gives it.";
  }
  const controls = make("div", { class: "controls" }, W.controls.map((control) => controlOf(control, x, update)));
  const reset = make("button", {
    type: "button",
    onclick: () => {
      controls.querySelectorAll("input, select").forEach((field) => {
        field.value = field.dataset.start;
        field.dispatchEvent(new Event("input"));
      });
    },
  }, "Back to the typical row");
  update();
  const fixed = D.fixed.length || W.controls.length < D.effects.length
    ? " Columns without a control stay as in that row."
    : "";
  return make(
    "div",
    { class: "what-if-part" },
    title,
    make(
      "p",
      { class: "soft" },
      `Set columns and see the ${D.quantity}, computed here as the model computes it. It starts at a typical row of the training data.${fixed}`,
    ),
    make(
      "div",
      { class: "what-if" },
      controls,
      make(
        "div",
        { class: "outcome", "aria-live": "polite" },
        make("label", { for: id, class: "soft" }, "Task "),
        task,
        make("p", { class: "soft", style: "margin:12px 0 0" }, sentence(D.quantity).slice(0, -1)),
        output,
        note,
        make("p", { style: "margin:14px 0 0" }, reset),
      ),
    ),
  );
}

/* A slider for a number, a choice for a text; it writes the features of its column into x. */
function controlOf(control, x, update) {
  const shown = make("span", { class: "soft" }), name = withUnit(control);
  const write = (features) => {
    control.positions.forEach((position, k) => {
      x[position] = features[k];
    });
  };
  if (control.labels) {
    const select = make(
      "select",
      { "data-start": control.at, "aria-label": control.name },
      control.labels.map((label, k) => make("option", { value: k }, label)),
    );
    select.value = control.at;
    select.addEventListener("input", () => {
      write(control.features[Number(select.value)]);
      update();
    });
    return make("label", {}, make("span", {}, name), select);
  }
  const unit = (value) => control.mean + control.scale * value,
    low = unit(Math.min(control.low, control.at)),
    high = unit(Math.max(control.high, control.at));
  const slider = make("input", {
    type: "range",
    min: low,
    max: high,
    step: (high - low) / 200,
    "data-start": unit(control.at),
    "aria-label": name,
  });
  slider.value = unit(control.at);
  shown.textContent = text(unit(control.at));
  slider.addEventListener("input", () => {
    const value = Number(slider.value);
    write([(value - control.mean) / control.scale, ...range(control.positions.length - 1).map(() => 0)]);
    shown.textContent = text(value);
    slider.setAttribute("aria-valuetext", text(value));
    update();
  });
  return make("label", {}, make("span", {}, name), shown, slider);
}
