
"use strict";
// The table of all runs: grouped by data set, method, model or source, or with a column for each data set.

const GROUPS = [["data set", "dataSet"], ["method", "method"], ["model", "model"], ["suite", "suite"], ["results folder", "folder"]];
const GRID = "methods × data sets";

function leaderboard(section) {
  const board = section.querySelector("table.board");
  const frame = board.parentElement;
  const rows = [...board.tBodies[0].rows];
  const heads = [...board.tHead.rows[0].cells];
  const groups = GROUPS.filter(([, key], i) => i < 3 || new Set(rows.map((row) => row.dataset[key])).size > 1);
  const number = (row, key) => (row.dataset[key] === undefined ? null : Number(row.dataset[key]));
  const askedOtherwise = (row) => row.dataset.askedOtherwise !== undefined;  // was asked other questions: ranked with none
  let [column, up] = [heads.find((head) => head.textContent === "score"), false];

  const value = (row) => (column.classList.contains("number") ? number(row, column.textContent) : row.cells[heads.indexOf(column)].textContent);
  const wanted = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter((word) => word);
    return rows.filter((row) => words.every((word) => row.textContent.toLowerCase().includes(word)));
  };
  function grouped(key) {
    const parts = new Map();
    for (const row of wanted().sort((a, b) => askedOtherwise(a) - askedOtherwise(b) || ordered(value(a), value(b), up))) {
      const name = row.dataset[key];
      if (!parts.has(name)) parts.set(name, []);
      parts.get(name).push(row);
    }
    const named = [...parts].sort(([a], [b]) => a.localeCompare(b, undefined, { numeric: true }));
    board.tBodies[0].replaceChildren(...named.flatMap(([name, part]) => [
      make("tr", { class: "group" }, make("th", { colspan: heads.length, scope: "rowgroup" }, name || "(none)", make("small", {}, ` ${counted(part.length, "run")}`))),
      ...part]));
    frame.replaceChildren(board);
  }

  // Methods in rows, data sets in columns; the mean where a method has them all. The best of a column is bold, but for
  // upper bounds, runs of other questions, and zeros.
  function grid() {
    const models = new Set(rows.map((row) => row.dataset.model)).size > 1;
    const sets = [...new Set(wanted().map((row) => row.dataset.dataSet))].sort();
    const lines = new Map();
    for (const row of wanted().sort((a, b) => askedOtherwise(a) - askedOtherwise(b))) {
      const name = row.cells[0].textContent + (models && row.dataset.model !== "–" ? ` (${row.dataset.model})` : "");
      if (!lines.has(name)) lines.set(name, Object.assign(new Map(), { askedOtherwise: new Set() }));
      const cells = lines.get(name);
      const [set, score] = [row.dataset.dataSet, number(row, "score")];
      if (score === null || (cells.has(set) && (askedOtherwise(row) || cells.get(set) > score))) continue;
      if (askedOtherwise(row)) cells.askedOtherwise.add(set).add("mean");
      cells.set(set, score);
    }
    const mean = (cells) => (sets.every((set) => cells.has(set)) ? sets.reduce((sum, set) => sum + cells.get(set), 0) / sets.length : undefined);
    const columns = [...sets.map((set) => [set, (cells) => cells.get(set)]), ["mean", mean]];
    const ranked = (name, cells, set) => !name.includes(" (upper bound)") && !cells.askedOtherwise.has(set);
    const most = columns.map(([set, of]) => Math.max(...[...lines].filter(([name, cells]) => ranked(name, cells, set)).map(([, cells]) => of(cells) ?? -1)));
    const cell = (score, best) => make("td", score === undefined ? { class: "number" } : { class: best ? "number best" : "number", "data-value": score }, percent(score));
    const table = make("table", { class: "sortable" },
      make("thead", {}, make("tr", {}, ...["method", ...columns.map(([name]) => name)].map((name, i) =>
        make("th", { class: i ? "number" : "", scope: "col" }, make("button", { type: "button" }, name))))),
      make("tbody", {}, ...[...lines].map(([name, cells]) => make("tr", {}, make("td", {}, name),
        ...columns.map(([set, of], i) => cell(of(cells), most[i] > 0 && of(cells) === most[i] && ranked(name, cells, set)))))));
    sortable(table);
    table.tHead.rows[0].cells[columns.length].click();
    frame.replaceChildren(table);
  }

  const redraw = () => { if (Number(choice.value) === groups.length) grid(); else grouped(groups[Number(choice.value)][1]); };
  const choice = chooser([...groups.map(([label]) => label), GRID], 0, redraw);
  const search = make("input", { type: "search", placeholder: "filter runs", "aria-label": "filter the runs" });
  search.addEventListener("input", redraw);
  heads.forEach((head) => head.addEventListener("click", () => {
    up = turned(heads, head);
    column = head;
    redraw();
  }));
  section.querySelector(".board-choices").append(make("label", {}, "Group by ", choice), search);
  redraw();
}
