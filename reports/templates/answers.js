
"use strict";
// The details of one answer: prediction, scores, what was shown, the steps of the search.

function stepsTable(steps, toStep) {
  const parts = [...new Set(steps.flatMap((s) => Object.keys(s.scores || {})))];
  const head = ["#", "action", "node", "level", "P(Yes)", ...parts, "tokens", "TFLOPs", "text"];
  const rows = steps.map((s, i) => [link(i, toStep(i), "link to this step"), s.action, whole(s.node), whole(s.level), whole(s.p_yes),
    ...parts.map((p) => whole((s.scores || {})[p])), s.tokens, whole(s.tflops), s.text || ""]);
  return make("div", { class: "steps" }, make("table", {},
    make("thead", {}, make("tr", {}, ...head.map((name) => make("th", {}, name)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell)))))));
}

function shownList(answer) {
  const all = answer.shown || [];
  const pieces = all.map((piece) => make("div", { class: piece.evidence ? "shown evidence" : "shown" },
    make("b", {}, piece.where + (piece.evidence ? " · holds evidence" : "")), make("br"),
    piece.text === undefined ? "(the text is in the data set, which is not available here)" : piece.text));
  if (answer.shown_total > all.length) {
    pieces.push(make("p", { class: "note" }, `and ${counted(answer.shown_total - all.length, "more piece")}`));
  }
  return make("details", {}, make("summary", {}, `what was shown: ${counted(answer.shown_total, "piece")}`), ...pieces);
}

function stepsList(answer, toStep) {
  const more = answer.steps_total - (answer.steps || []).length;
  return make("details", { class: "search" }, make("summary", {}, `search: ${counted(answer.steps_total, "step")}`),
    stepsTable(answer.steps || [], toStep),
    more > 0 ? make("p", { class: "note" }, `and ${counted(more, "more step")}: harness trace RUN QUESTION_ID`) : null);
}

// toStep(step): the address of a step, and of the answer itself for undefined; graph(n): promises the drawn graph n.
function answerBox(label, answer, toStep, graph) {
  if (!answer) return make("div", { class: "answer" }, make("h4", {}, label, make("span", {}, " was not asked")));
  const scores = Object.entries(answer.scores || {}).map(([name, value]) => `${name} ${percent(value)}`).join(" · ");
  const box = make("div", { class: answer.error ? "answer failed" : "answer" },
    make("h4", {}, link(label, toStep(undefined), "link to this answer"), make("span", {}, answer.stop ? `  stopped: ${answer.stop}` : "")),
    make("div", { class: "prediction" }, answer.prediction || "(empty)"),
    make("p", { class: "note" }, scores));
  if (answer.error) box.append(make("p", { class: "error" }, answer.error));
  if (answer.truncated) box.append(make("p", { class: "note" }, `context cut: ${JSON.stringify(answer.truncated)}`));
  if (answer.shown_total) box.append(shownList(answer));
  if (answer.steps_total) box.append(stepsList(answer, toStep));
  if (answer.replay) box.append(playerBox(graph, answer, label, toStep));
  return box;
}

// Open the search of an answer at a step: on its graph where it can be played, and in the table of steps.
function openStep(box, step) {
  const player = box.querySelector("details.replay");
  const list = box.querySelector("details.search");
  const row = list && list.querySelectorAll("tbody tr")[step];
  if (player) {
    player.dataset.step = step;
    player.open = true;
    player.dispatchEvent(new Event("step"));
  }
  if (row) {
    list.open = true;
    list.querySelectorAll("tr.at").forEach((other) => other.classList.remove("at"));
    row.classList.add("at");
  }
  (player || row || box).scrollIntoView({ block: player || !row ? "start" : "center" });
}
