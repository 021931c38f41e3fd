/* The sections of the page, in order. */
function pageHead() {
  const first = R.models[0], E = first.evaluation;
  const facts = [
    R.models.map((model) => model.model.name === model.name ? model.name : `${model.name} (${model.model.name})`).join(
      " and ",
    ),
    plural(first.tasks.length, "group"),
    ...first.further.map(([name, count]) => `${plural(count, "group")} of ${name}`),
    first.data ? plural(first.data.rows, "training row") : null,
    E ? plural(E.n_rows, "test row") : null,
  ];
  document.getElementById("head").append(
    make("div", {}, make("h1", {}, R.title), make("p", { class: "soft" }, facts.filter(Boolean).join(" · "))),
    themeButton(),
  );
}

const SECTIONS = [
  [answerSection, "Answer"],
  [groupsSection, "Groups"],
  [driversSection, "Drivers"],
  [predictionsSection, "Predictions"],
  [tasksSection, "Group by group"],
  [relationsSection, "Alike"],
  [fitSection, "Fit"],
  [aboutSection, "Model and data"],
];

function build() {
  const page = document.getElementById("page"), links = [];
  page.replaceChildren();
  for (const [section, word] of SECTIONS) {
    const element = section(R.models);
    if (!element) continue;
    page.append(element);
    links.push(make("li", {}, make("a", { href: `#${element.id}` }, word)));
  }
  document.getElementById("sections").append(make("ul", {}, links));
}

pageHead();
build();
watchWidth();
drawAll().then(() => {
  document.documentElement.dataset.ready = "yes";
}, (error) => {
  document.documentElement.dataset.ready = "no";
  throw error;
});
