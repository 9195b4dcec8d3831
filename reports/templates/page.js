
"use strict";
// Everything from data becomes a text node; no markup is ever built from strings.
const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

function draw(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const percent = (value) => (value === null || value === undefined ? "–" : (100 * value).toFixed(1));
const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const whole = (number) => (number === null || number === undefined ? "" : String(number));

// ---- tables that sort ----------------------------------------------------------------------------------------

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") === "descending" ||
      (!head.hasAttribute("aria-sort") && !head.classList.contains("number"));
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows].filter((row) => !row.classList.contains("detail-row"));
    table.querySelectorAll(".detail-row").forEach((row) => row.remove());
    table.querySelectorAll(".open").forEach((row) => row.classList.remove("open"));
    const number = head.classList.contains("number");
    const value = (row) => {
      const cell = row.cells[column];
      if (!number) return cell.textContent;
      return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
    };
    rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      const order = number ? x - y : x.localeCompare(y, undefined, { numeric: true });
      return up ? order : -order;
    });
    table.tBodies[0].append(...rows);
  }));
}

// ---- differences by question ---------------------------------------------------------------------------------

function names(data) {
  const models = new Set(data.methods.map((m) => m.model));
  return data.methods.map((m) => (models.size > 1 ? `${m.label} (${m.model})` : m.label));
}

function chooser(labels, chosen) {
  const select = make("select", {}, ...labels.map((label, i) => make("option", { value: i }, label)));
  select.value = chosen;
  return select;
}

function pairs(data, a, b) {
  const found = [];
  data.ids.forEach((id, i) => {
    const [x, y] = [data.values[a][i], data.values[b][i]];
    if (x !== null && y !== null) found.push({ id, d: x - y });
  });
  return found.sort((p, q) => q.d - p.d);
}

function differenceChart(found, open) {
  const [wide, high, left, top] = [940, 230, 46, 10];
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img" });
  // The list is sorted, so the largest difference is at one of its ends.
  const largest = Math.max(Math.abs(found[0].d), Math.abs(found[found.length - 1].d));
  const most = [0.1, 0.2, 0.4, 0.6, 0.8, 1].find((round) => largest <= round) || largest;
  const y = (d) => top + (high - 2 * top) * (1 - (d / most + 1) / 2);
  for (const tick of [-most, -most / 2, 0, most / 2, most]) {
    svg.append(draw("line", { x1: left, x2: wide - 8, y1: y(tick), y2: y(tick), class: tick === 0 ? "axis" : "grid" }));
    svg.append(draw("text", { x: left - 6, y: y(tick) + 4, class: "tick end" }, (100 * tick).toFixed(0)));
  }
  // More questions than pixels: every bar is then one of them, evenly spread; the order keeps the shape.
  const bars = Math.min(found.length, 860);
  const step = Math.min(26, (wide - 8 - left) / bars);
  for (let i = 0; i < bars; i += 1) {
    const pair = found[Math.floor((i * found.length) / bars)];
    const flat = Math.abs(y(pair.d) - y(0)) < 1;
    const bar = draw("rect", {
      x: (left + i * step).toFixed(2), width: Math.max(step * 0.86, 0.6).toFixed(2),
      y: flat ? y(0) - 1 : Math.min(y(0), y(pair.d)), height: flat ? 2 : Math.abs(y(pair.d) - y(0)),
      class: pair.d > 0 ? "up" : pair.d < 0 ? "down" : "zero", "data-question": pair.id,
    }, draw("title", {}, `${pair.id}: ${pair.d > 0 ? "+" : ""}${percent(pair.d)}`));
    bar.addEventListener("click", () => open(pair.id));
    svg.append(bar);
  }
  const mean = found.reduce((sum, p) => sum + p.d, 0) / found.length;
  svg.append(draw("line", { x1: left, x2: wide - 8, y1: y(mean), y2: y(mean), class: "mean" },
    draw("title", {}, `mean ${percent(mean)}`)));
  return svg;
}

function differences(place, data, state) {
  if (data.methods.length < 2) return;
  const labels = names(data);
  const [first, second] = [chooser(labels, state.a), chooser(labels, state.b)];
  const told = make("p", { class: "legend" });
  const chart = make("div", {});
  const redraw = () => {
    [state.a, state.b] = [Number(first.value), Number(second.value)];
    const found = pairs(data, state.a, state.b);
    chart.replaceChildren();
    if (!found.length) {
      told.textContent = "These two have no scored question in common.";
    } else {
      const count = (test) => found.filter((p) => test(p.d)).length;
      const mean = found.reduce((sum, p) => sum + p.d, 0) / found.length;
      told.textContent = `${found.length} questions: ${labels[state.a]} better on ${count((d) => d > 0)}, equal on ` +
        `${count((d) => d === 0)}, worse on ${count((d) => d < 0)}; mean difference ${percent(mean)} (dashed). ` +
        "Each bar is a question, sorted; click one to read it.";
      chart.append(differenceChart(found, state.open));
    }
    state.changed();
  };
  first.addEventListener("change", redraw);
  second.addEventListener("change", redraw);
  place.append(make("h3", {}, "Differences by question"),
    make("div", { class: "bar-of-choices" }, make("label", {}, `${data.score} of `, first), make("label", {}, "minus ", second)),
    chart, told);
  redraw();
}

// ---- questions -----------------------------------------------------------------------------------------------

function stepsTable(steps) {
  const parts = [...new Set(steps.flatMap((s) => Object.keys(s.scores)))];
  const head = ["#", "action", "node", "level", "P(Yes)", ...parts, "tokens", "TFLOPs", "text"];
  const rows = steps.map((s, i) => [i, s.action, whole(s.node), whole(s.level), whole(s.p_yes),
    ...parts.map((p) => whole(s.scores[p])), s.tokens, whole(s.tflops), s.text]);
  const cells = (row, tag) => row.map((c) => make(tag, {}, String(c)));
  return make("div", { class: "steps" }, make("table", {},
    make("thead", {}, make("tr", {}, ...cells(head, "th"))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row, "td"))))));
}

function shownList(answer) {
  const pieces = answer.shown.map((piece) => make("div", { class: piece.evidence ? "shown evidence" : "shown" },
    make("b", {}, piece.where + (piece.evidence ? " · holds evidence" : "")), make("br"),
    piece.text === null ? "(the text is in the data set, which is not available here)" : piece.text));
  if (answer.shown_total > answer.shown.length) {
    pieces.push(make("p", { class: "note" }, `and ${counted(answer.shown_total - answer.shown.length, "more piece")}`));
  }
  return make("details", {}, make("summary", {}, `what was shown: ${counted(answer.shown_total, "piece")}`), ...pieces);
}

function answerBox(data, label, answer) {
  if (answer === null) return make("div", { class: "answer" }, make("h4", {}, label, make("span", {}, " was not asked")));
  const scores = Object.entries(answer.scores).map(([name, value]) => `${name} ${percent(value)}`).join(" · ");
  const box = make("div", { class: answer.error ? "answer failed" : "answer" },
    make("h4", {}, label, make("span", {}, answer.stop ? `  stopped: ${answer.stop}` : "")),
    make("div", { class: "prediction" }, answer.prediction === "" ? "(empty)" : answer.prediction),
    make("p", { class: "note" }, scores));
  if (answer.error) box.append(make("p", { class: "error" }, answer.error));
  if (answer.truncated) box.append(make("p", { class: "note" }, `context cut: ${JSON.stringify(answer.truncated)}`));
  if (answer.shown_total) box.append(shownList(answer));
  if (answer.steps_total) {
    const more = answer.steps_total - answer.steps.length;
    const inner = make("details", {}, make("summary", {}, `search: ${counted(answer.steps_total, "step")}`), stepsTable(answer.steps));
    if (more > 0) inner.append(make("p", { class: "note" }, `and ${counted(more, "more step")}: harness trace RUN QUESTION_ID`));
    box.append(inner);
  }
  if (answer.replay) box.append(playerBox(data, answer, label));
  return box;
}

function detail(data, question) {
  const labels = names(data);
  const gold = question.gold === null ? "not available here" : question.gold.join("  |  ") || "(none)";
  return make("div", { class: "detail" },
    make("div", { class: "gold" }, question.text === null ? null : make("div", {}, make("b", {}, "Question "), question.text),
      question.options ? make("div", {}, make("b", {}, "Options "), question.options.join("  |  ")) : null,
      make("div", {}, make("b", {}, "Gold "), gold)),
    ...question.answers.map((answer, i) => answerBox(data, labels[i], answer)));
}

function questions(place, data, state) {
  if (!data.questions.length) return;
  const labels = names(data);
  const order = data.methods.map((_, i) => i);
  const search = make("input", { type: "search", placeholder: "filter by id, question, gold or answer" });
  const count = make("span", { class: "note" });
  const head = make("tr", {}, ...["question", ...labels].map((label, i) =>
    make("th", i ? { class: "number", scope: "col" } : { scope: "col" }, make("button", { type: "button" }, label))),
  make("th", { class: "number", scope: "col" }, make("button", { type: "button" }, "difference")));
  const table = make("table", {}, make("thead", {}, head), make("tbody"));
  const index = new Map(data.ids.map((id, i) => [id, i]));
  const score = (question, m) => {
    const at = index.get(question.id);
    return at === undefined ? (question.answers[m] || { scores: {} }).scores[data.score] ?? null : data.values[m][at];
  };
  const number = (value) => make("td", value === null ? { class: "number" } : { class: "number", "data-value": value }, percent(value));
  const rows = data.questions.map((question) => {
    const row = make("tr", { class: "row", tabindex: "0" },
      make("td", { class: "text" }, question.text === null ? question.id : question.text), ...order.map((m) => number(score(question, m))), number(null));
    row.question = question;
    row.words = [question.id, question.text, ...(question.gold || []), ...question.answers.map((a) => (a ? a.prediction : ""))]
      .join("\n").toLowerCase();
    const toggle = () => {
      if (row.classList.toggle("open")) {
        const cell = make("td", { colspan: row.cells.length }, detail(data, question));
        row.after(make("tr", { class: "detail-row" }, cell));
      } else if (row.nextElementSibling) {
        row.nextElementSibling.remove();
      }
    };
    row.addEventListener("click", toggle);
    row.addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(); });
    return row;
  });
  table.tBodies[0].append(...rows);
  const filter = () => {
    const wanted = search.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = wanted !== "" && !row.words.includes(wanted);
      const next = row.nextElementSibling;
      if (next && next.classList.contains("detail-row")) next.hidden = row.hidden;
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = `${shown} of ${rows.length}`;
  };
  search.addEventListener("input", filter);
  state.changed = () => rows.forEach((row) => {
    const [x, y] = [score(row.question, state.a), score(row.question, state.b)];
    const cell = row.cells[row.cells.length - 1];
    const known = x !== null && y !== null;
    cell.textContent = known ? (x > y ? "+" : "") + percent(x - y) : "–";
    cell.className = `number ${known && x > y ? "better" : known && x < y ? "worse" : ""}`;
    if (known) cell.dataset.value = x - y; else delete cell.dataset.value;
  });
  state.open = (id) => {
    const row = rows.find((r) => r.question.id === id);
    if (!row) { search.value = id; filter(); return; }
    search.value = "";
    filter();
    if (!row.classList.contains("open")) row.click();
    row.scrollIntoView({ block: "center" });
  };
  place.append(make("div", { class: "bar-of-choices" }, search, count), make("div", { class: "scroll" }, table));
  sortable(table);
  filter();
}

document.querySelectorAll("table.sortable").forEach(sortable);
DATA.forEach((data, i) => {
  const at = (kind) => document.querySelector(`.${kind}[data-place="${i}"]`);
  const reference = data.reference;
  const rivals = data.methods.map((m, at) => at).filter((at) => at !== reference);
  const first = rivals.find((at) => !data.methods[at].ceiling) ?? rivals[0] ?? 0;
  const state = { a: first, b: reference, open: () => {}, changed: () => {} };
  questions(at("questions"), data, state);
  differences(at("differences"), data, state);
});
