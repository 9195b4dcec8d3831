
"use strict";
// All questions of a data set as a list to search, filter and sort, and the one that is read below it.

const PAGE = 50; // rows that are drawn at once

const OUTCOMES = [
  ["every question", () => true],
  ["first better", (x, y) => x !== null && y !== null && x > y],
  ["first worse", (x, y) => x !== null && y !== null && x < y],
  ["equal", (x, y) => x !== null && x === y],
  ["both 0", (x, y) => x === 0 && y === 0],
];

// What is searched, one text a question, made when somebody searches.
function haystacks(data) {
  return data.ids.map((id, i) => [id, data.texts && data.texts[i], ...((data.gold && data.gold[i]) || []), ...data.predictions.map((row) => row[i])]
    .filter((words) => words).join("\n").toLowerCase());
}

class Questions {
  constructor(place, data, number, state) {
    Object.assign(this, { place, data, number, state, labels: names(data), words: null, shown: PAGE, column: null, up: false });
    this.places = new Map(data.ids.map((id, i) => [id, i]));
    this.failed = data.failed.map((row) => new Set(row));
    this.search = make("input", { type: "search", placeholder: "search id, question, gold, answers", "aria-label": "search the questions" });
    this.search.addEventListener("input", () => this.list());
    this.outcome = chooser(OUTCOMES.map(([label]) => label), 0, () => this.list());
    this.count = make("span", { class: "note" });
    this.more = button(`show ${PAGE} more`, () => { this.shown += PAGE; this.rows(); }, { class: "more" });
    this.heads = ["question", ...this.labels, "difference"].map((label, i) => this.head(label, i - 1));
    this.body = make("tbody", {});
    this.reading = make("div", {});
    place.append(make("div", { class: "bar-of-choices" }, this.search, this.outcome, this.count),
      make("div", { class: "wide list" }, make("table", {}, make("thead", {}, make("tr", {}, ...this.heads)), this.body)),
      this.more, this.reading);
    this.list();
  }

  // method: its place; -1 the question, one more than the last the difference of the chosen two.
  head(label, method) {
    const head = make("th", { class: method < 0 ? "" : "number", scope: "col" }, make("button", { type: "button" }, label));
    head.addEventListener("click", () => {
      this.up = turned(this.heads, head);
      this.column = method;
      this.list();
    });
    return head;
  }

  value(method, i) {
    const { data, state } = this;
    if (method < 0) return data.texts && data.texts[i] ? data.texts[i] : data.ids[i];
    if (method < data.methods.length) return data.values[method][i];
    const [x, y] = [data.values[state.a][i], data.values[state.b][i]];
    return x === null || y === null ? null : x - y;
  }

  // The questions that are wanted, in order; drawn from the first.
  list() {
    const { data, state, column } = this;
    const wanted = this.search.value.toLowerCase().split(/\s+/).filter((word) => word);
    if (wanted.length && !this.words) this.words = haystacks(data);
    const [, fits] = OUTCOMES[Number(this.outcome.value)];
    this.order = data.ids.map((_, i) => i).filter((i) => wanted.every((word) => this.words[i].includes(word)) &&
      fits(data.values[state.a][i], data.values[state.b][i]));
    if (column !== null) this.order.sort((i, j) => ordered(this.value(column, i), this.value(column, j), this.up));
    const all = counted(data.ids.length, "question");
    this.count.textContent = this.order.length === data.ids.length ? all : `${this.order.length.toLocaleString("en")} of ${all}`;
    this.shown = PAGE;
    this.rows();
  }

  rows() {
    this.body.replaceChildren(...this.order.slice(0, this.shown).map((i) => this.row(i)));
    this.more.hidden = this.shown >= this.order.length;
    this.heads.forEach((head, i) => head.classList.toggle("other", this.other(i - 1)));
  }

  // Whether a column is left out where there is no room: neither of the two chosen methods.
  other(method) {
    const { data, state } = this;
    return method >= 0 && method < data.methods.length && method !== state.a && method !== state.b;
  }

  row(i) {
    const row = make("tr", { class: i === this.at ? "row open" : "row", tabindex: "0" }, make("td", { class: "text" }, this.value(-1, i)));
    this.data.methods.forEach((_, m) => {
      const failed = this.failed[m].has(i);
      const value = this.value(m, i);
      const outcome = value === null ? "" : value >= 1 ? " right" : value > 0 ? " partly" : " wrong";
      row.append(make("td", { class: `number${outcome}${this.other(m) ? " other" : ""}${failed ? " worse" : ""}`, title: failed ? "failed" : "" },
        percent(value) + (failed ? " ✗" : "")));
    });
    const d = this.value(this.data.methods.length, i);
    row.append(make("td", { class: `number ${d > 0 ? "better" : d < 0 ? "worse" : ""}` }, (d > 0 ? "+" : "") + percent(d)));
    const read = () => go(address(this.data, this.data.ids[i]));
    row.addEventListener("click", read);
    row.addEventListener("keydown", (event) => { if (event.key === "Enter") read(); });
    return row;
  }

  // The answers to a question; null where the page has no details of it.
  async answers(i) {
    const { starts } = this.data;
    if (i >= starts[starts.length - 1]) return null;
    let part = 0;
    while (starts[part + 1] <= i) part += 1;
    if (this.part !== part) [this.part, this.details] = [part, unpack(`d${this.number}-part-${part}`)];
    return (await this.details)[i - starts[part]];
  }

  // Read a question, one answer of it, or a step of its search; what a link names.
  async open(id, run, step) {
    const { data } = this;
    const i = this.places.get(id);
    if (i === undefined) {
      this.reading.replaceChildren(make("p", { class: "error" }, `This page has no question ${id}.`));
      this.reading.scrollIntoView({ block: "center" });
      return;
    }
    const answers = await this.answers(i);
    this.at = i;
    this.rows();
    const graph = (n) => unpack(`d${this.number}-graph-${n}`);
    const boxes = data.methods.map((method, m) => answerBox(this.labels[m],
      answers ? answers[m] : this.brief(m, i), (s) => address(data, id, method.run, s), graph));
    const missing = answers ? null : make("p", { class: "note" }, "The page has no details of this question: harness trace RUN QUESTION_ID.");
    this.reading.replaceChildren(make("article", { class: "reading" }, this.asked(i, boxes), missing, ...boxes));
    const box = boxes[data.methods.findIndex((method) => method.run === run)];
    if (box && step !== undefined) openStep(box, Number(step));
    else (box || this.reading.firstChild).scrollIntoView({ block: "start" });
  }

  brief(method, i) {
    const prediction = this.data.predictions[method][i];
    return prediction === null ? null : { prediction, scores: this.value(method, i) === null ? {} : { [this.data.score]: this.value(method, i) } };
  }

  // The question, its gold answers and the scores of all methods; stays in view while the answers are scrolled.
  asked(i, boxes) {
    const { data, order } = this;
    const at = order.indexOf(i);
    const turn = (label, to) => {
      const made = button(label, () => go(address(data, data.ids[order[to]])));
      made.disabled = at < 0 || to < 0 || to >= order.length;
      return made;
    };
    const close = button("Close", () => {
      this.at = undefined;
      this.reading.replaceChildren();
      location.hash = address(data);
      this.rows();
    });
    const line = (label, words) => make("div", {}, make("b", {}, `${label} `), words);
    const [text, gold, options] = ["texts", "gold", "options"].map((name) => data[name] && data[name][i]);
    return make("header", { class: "asked" },
      make("div", { class: "turns" }, turn("‹ Previous", at - 1), turn("Next ›", at + 1),
        make("span", { class: "note" }, at < 0 ? data.ids[i] : `${at + 1} of ${order.length.toLocaleString("en")} · ${data.ids[i]}`), close),
      make("div", { class: "question" }, text ? line("Question", text) : line("Question", data.ids[i]),
        options ? line("Options", options.join("  |  ")) : null,
        line("Gold", gold ? gold.join("  |  ") || "(none)" : "not available here")),
      make("div", { class: "chips" }, ...this.labels.map((label, m) =>
        button(`${label} ${percent(this.value(m, i))}`, () => boxes[m].scrollIntoView({ block: "start" })))));
  }
}
