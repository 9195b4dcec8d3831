
"use strict";
// The top of a page that `harness watch` serves: asks for the newest answers every two seconds. The tables below are of
// the moment when the page was made; a new one is loaded after a pause, unless somebody reads or searches in this one.

const LIVE = document.getElementById("live");
const PAUSE = Number(LIVE.dataset.pause);
const NUMBERS = ["answered", "failed", "score", "tokens", "tflops", "indexes", "time left", "last answer"];
const loaded = Date.now();
let version = null;
let answered = Number(LIVE.dataset.answered);

// The data set stands below the method, so that the numbers have room on a narrow screen.
function liveCell(row, name) {
  const kind = NUMBERS.includes(name) ? "number" : name === "method" ? "" : "text";
  if (name === "method") return make("td", {}, row.method, make("small", {}, row["data set"]));
  if (name !== "question") return make("td", { class: kind }, row[name]);
  const shown = link(row.question, address({ name: row["data set"] }, row.id), row.id);
  // The page below may be older than this answer: read it in a new one.
  shown.addEventListener("click", () => { if (answered !== Number(LIVE.dataset.answered)) setTimeout(() => location.reload()); });
  return make("td", { class: kind }, shown);
}

function liveTable(rows) {
  const names = Object.keys(rows[0]).filter((name) => name !== "id" && name !== "data set");
  return make("div", { class: "wide" }, make("table", { class: "sortable" },
    make("thead", {}, make("tr", {}, ...names.map((name) => make("th", { class: NUMBERS.includes(name) ? "number" : "", scope: "col" }, name)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...names.map((name) => liveCell(row, name)))))));
}

const busy = () => new URLSearchParams(location.hash.slice(1)).has("q") || document.querySelector("section:not(#live) details[open]") ||
  [...document.querySelectorAll("input[type=search]")].some((input) => input.value);

function newer(state) {
  answered = state.answered;
  const count = answered - Number(LIVE.dataset.answered);
  const changed = count !== 0 || (version !== null && version !== state.version);
  version = version ?? state.version;
  if (!changed) return make("p", { class: "legend" }, "The page below holds all of these answers.");
  if (!busy() && Date.now() - loaded > 1000 * (LIVE.dataset.answered === "0" ? 2 : PAUSE)) location.reload();
  const message = count > 0 ? `${counted(count, "answer")} newer than the page below. ` : "A run has changed since the page below was made. ";
  return make("p", { class: "legend" }, message, button("Load them", () => location.reload()));
}

// Redraw a part of the section where what it shows has changed, and keep it scrolled as it was.
function redraw(part, value, children) {
  const state = JSON.stringify(value);
  if (part.dataset.shown === state) return;
  part.dataset.shown = state;
  const left = [...part.querySelectorAll(".wide")].map((frame) => frame.scrollLeft);
  part.replaceChildren(...children());
  part.querySelectorAll(".wide").forEach((frame, i) => { frame.scrollLeft = left[i] || 0; });
}

function drawLive(state) {
  redraw(LIVE.children[0], [state.note, state.rows], () => [make("h2", {}, "Live"), make("p", { class: "note" }, state.note),
    ...(state.rows.length ? [liveTable(state.rows), make("p", { class: "legend" },
      "score: the data set's first × 100 with a 95 % interval, of the answers so far · tokens: search and answer of a question · " +
      "tflops: a question with its share of the index")] : [])]);
  LIVE.children[1].replaceChildren(newer(state));
  redraw(LIVE.children[2], [state.failed, state.newest], () => [["Failed questions", state.failed], ["Newest answers", state.newest]]
    .flatMap(([title, rows]) => (rows.length ? [make("h3", {}, title), liveTable(rows)] : [])));
}

async function ask() {
  try {
    const reply = await fetch("state", { cache: "no-store" });
    if (reply.ok) drawLive(await reply.json());
  } catch {
    LIVE.children[1].replaceChildren(make("p", { class: "error" }, "harness watch does not answer any more; this is what it said last."));
  }
  setTimeout(ask, 2000);
}

LIVE.append(make("div"), make("div"), make("div"));
ask();
