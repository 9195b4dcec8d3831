
"use strict";
// A search played step by step on its drawn graph; see reports/search_player.py for the data. Text nodes only, as in page.js.

// From the bottom of the higher node to the top of the lower one.
function curve(above, below) {
  const [y1, y2] = [above[1] + above[3] / 2, below[1] - below[3] / 2];
  const bend = (y1 + y2) / 2;
  return `M${above[0]} ${y1}C${above[0]} ${bend} ${below[0]} ${bend} ${below[0]} ${y2}`;
}

const diamond = (x, y, size) => draw("path", {
  d: `M${x} ${y - size}L${x + size} ${y}L${x} ${y + size}L${x - size} ${y}Z`, class: "mark",
});

// One node of the drawing: {group, number}; `number` is filled when the search comes to it.
function graphNode(graph, i, marked) {
  const [x, y, wide, high] = graph.spots[i];
  const [level, text, lines] = graph.nodes[i];
  const hint = `#${i} · level ${level}${marked ? ", supporting" : ""}\n${text}`;
  const group = draw("g", { class: marked ? "node supporting" : "node" }, draw("title", {}, hint));
  const [left, top] = [x - wide / 2, y - high / 2];
  if (wide) {
    group.append(draw("rect", { x: left, y: top, width: wide, height: high, rx: 5, class: "body" }));
    lines.forEach((line, n) => group.append(draw("text", { x: left + 7, y: top + 16 + 14 * n }, line)));
    if (marked) group.append(diamond(left + wide - 2, top, 6));
  } else {
    group.append(marked ? diamond(x, y, 7) : draw("circle", { cx: x, cy: y, r: 4, class: "body" }));
  }
  const at = wide ? [left + 2, top] : [x, y];
  const badge = draw("g", { class: "badge" }, draw("circle", { cx: at[0], cy: at[1], r: 9, class: "disc" }));
  if (!wide && marked) badge.prepend(diamond(x, y, 16));
  const number = draw("text", { x: at[0], y: at[1] + 3.5, class: "number" });
  badge.append(number);
  group.append(badge);
  return { group, number };
}

// The whole drawing: {svg, nodes by number, the blue line of each move}.
function graphDrawing(graph, replay) {
  const marked = new Set(replay.marked || []);
  const svg = draw("svg", { viewBox: `0 0 ${graph.width} ${graph.height}`, role: "img", class: "graph" },
    draw("title", {}, `The graph that was searched: ${graph.nodes.length} nodes, ${marked.size} supporting`));
  const shown = new Set();
  for (const [higher, lower, weight, shade, pixels] of graph.edges) {
    shown.add(`${higher} ${lower}`);
    svg.append(draw("path", { d: curve(graph.spots[higher], graph.spots[lower]), class: `edge w${shade}`, "stroke-width": pixels },
      draw("title", {}, `#${higher} to #${lower}: weight ${weight.toFixed(3)}`)));
  }
  const lines = replay.moves.map((move) => {
    if (move.parent === undefined) return null;
    const from = replay.moves[move.parent].node;
    if (!shown.has(`${from} ${move.node}`)) return null;
    const line = draw("path", { d: curve(graph.spots[from], graph.spots[move.node]), class: "taken off" });
    svg.append(line);
    return line;
  });
  for (const [name, y] of graph.bands) svg.append(draw("text", { x: 10, y: y + 4, class: "tick" }, name));
  const nodes = graph.nodes.map((_, i) => graphNode(graph, i, marked.has(i)));
  svg.append(...nodes.map((node) => node.group));
  return { svg, nodes, lines };
}

// P(Yes) by step, with a dashed line at the stop; {svg, needle(step)}. Null where no step was probed.
function probeCurve(moves, go, wide) {
  const probed = moves.map((move, i) => [i, move.p_yes]).filter(([, p]) => p !== undefined);
  if (!probed.length) return null;
  const [high, left, top, bottom] = [130, 46, 10, 20];
  const x = (i) => left + ((wide - left - 16) * (i + 0.5)) / moves.length;
  const y = (p) => top + (high - top - bottom) * (1 - p);
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", class: "probes" },
    draw("title", {}, "P(Yes) after each step"));
  for (const tick of [0, 0.5, 1]) {
    svg.append(draw("line", { x1: left, x2: wide - 16, y1: y(tick), y2: y(tick), class: tick ? "grid" : "axis" }),
      draw("text", { x: left - 6, y: y(tick) + 4, class: "tick end" }, String(tick)));
  }
  svg.append(draw("text", { x: left, y: high - 4, class: "tick" }, "P(Yes) after each step"));
  const behind = moves.findIndex((move) => move.later);
  if (behind >= 0) {
    const stop = (x(behind - 1) + x(behind)) / 2;
    svg.append(draw("line", { x1: stop, x2: stop, y1: top, y2: high - bottom, class: "mean" }, draw("title", {}, "the search stopped here")));
  }
  const needle = draw("line", { y1: top, y2: high - bottom, class: "needle" });
  svg.append(needle, draw("path", { d: probed.map(([i, p], n) => `${n ? "L" : "M"}${x(i).toFixed(1)} ${y(p).toFixed(1)}`).join(""), class: "probed" }));
  for (const [i, p] of probed) {
    const dot = draw("circle", { cx: x(i).toFixed(1), cy: y(p).toFixed(1), r: 4, class: "probe" }, draw("title", {}, `step ${i}: P(Yes) ${p}`));
    dot.addEventListener("click", () => go(i));
    svg.append(dot);
  }
  return { svg, needle: (i) => ["x1", "x2"].forEach((end) => needle.setAttribute(end, x(i))) };
}

const EVIDENCE = { yes: "overlaps a supporting part", source: "written from a supporting part", no: "no evidence" };

function moveWords(graph, replay, i) {
  const move = replay.moves[i];
  const words = [`Step ${i} of ${replay.moves.length - 1}: ${move.action}`];
  if (move.node !== undefined) words.push(`node #${move.node}, level ${graph.nodes[move.node][0]}`);
  if (move.parent !== undefined) words.push(`from step ${move.parent} over an edge of ${move.edge}`);
  for (const [name, value] of Object.entries(move.scores || {})) words.push(`${name} ${value}`);
  if (move.p_yes !== undefined) words.push(`P(Yes) ${move.p_yes}`);
  if (move.tokens) words.push(counted(move.tokens, "token"));
  if (EVIDENCE[move.evidence]) words.push(EVIDENCE[move.evidence]);
  if (move.note) words.push(move.text);
  if (move.later) words.push("behind the stop: what a later stop would have seen");
  if (move.answer !== undefined) words.push(`the answer here: ${move.answer || "(empty)"}`);
  return words.join(" · ");
}

// wide: pixels there are for it.
function player(graph, replay, name, toStep, wide) {
  const last = replay.moves.length - 1;
  const drawing = graphDrawing(graph, replay);
  const caption = make("p", { class: "legend", "aria-live": "polite" });
  const here = link("link to this step", "", "");
  const text = make("div", { class: "prediction" });
  const slider = make("input", { type: "range", min: 0, max: last, step: 1, value: 0, "aria-label": "step of the search" });
  const frame = make("div", { class: "graph-frame" }, drawing.svg);
  drawing.svg.style.minWidth = `${Math.round(graph.width * 0.75)}px`;
  let [at, timer] = [0, null];
  const first = new Map();
  replay.moves.forEach((move, i) => { if (move.node !== undefined && !first.has(move.node)) first.set(move.node, i); });

  function show(i) {
    at = Math.max(0, Math.min(last, i));
    const move = replay.moves[at];
    for (const [node, step] of first) {
      const { group, number } = drawing.nodes[node];
      group.classList.toggle("visited", step <= at);
      group.classList.toggle("later", step <= at && Boolean(replay.moves[step].later));
      group.classList.toggle("current", node === move.node);
      number.textContent = step <= at ? String(step) : "";
    }
    drawing.lines.forEach((line, n) => { if (line) line.classList.toggle("off", n > at); });
    if (probes) probes.needle(at);
    if (move.node !== undefined) { // in the middle of what is seen of a wide graph
      const scale = drawing.svg.clientWidth / graph.width;
      frame.scrollLeft = graph.spots[move.node][0] * scale - frame.clientWidth / 2;
    }
    slider.value = at;
    caption.textContent = moveWords(graph, replay, at);
    here.setAttribute("href", toStep(at));
    slider.setAttribute("aria-valuetext", `step ${at} of ${last}`);
    text.textContent = move.node === undefined ? "(this step shows no node)" : graph.nodes[move.node][1] || "(empty)";
  }
  function halt() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }
  function toggle() {
    if (timer !== null) { halt(); return; }
    if (at === last) show(0);
    play.textContent = "Pause";
    timer = setInterval(() => {
      if (!box.isConnected || at === last) halt(); else show(at + 1);
    }, 900);
  }
  const go = (i) => { halt(); show(i); };
  const play = button("Play", toggle);
  const probes = probeCurve(replay.moves, go, wide);
  slider.addEventListener("input", () => go(Number(slider.value)));
  const box = make("div", { class: "player", tabindex: "0", role: "group", "aria-label": `the search of ${name}, step by step` },
    make("div", { class: "bar-of-choices" }, button("First", () => go(0)), button("Back", () => go(at - 1)), play,
      button("Next", () => go(at + 1)), button("Last", () => go(last)), slider, here),
    caption, text, frame, saveBar(`search of ${name}`, () => drawing.svg),
    ...(probes ? [probes.svg, saveBar(`P(Yes) of ${name}`, () => probes.svg)] : []),
    make("p", { class: "note" }, "Edges: the heavier the thicker and redder" +
      (graph.left_out ? `; ${counted(graph.left_out, "edge")} of a weight up to ${graph.least} left out` : "") +
      ". Blue: visited, with the number of its step; dashed: behind the stop. Diamond: supporting." +
      (replay.more ? ` ${counted(replay.more, "more step")}: harness trace RUN QUESTION_ID.` : "") +
      " Keys: arrows, Home, End, space."));
  const keys = { ArrowRight: () => go(at + 1), ArrowLeft: () => go(at - 1), Home: () => go(0), End: () => go(last), " ": toggle };
  box.addEventListener("keydown", (event) => {
    // Buttons and the slider know what to do with these keys themselves.
    if (event.target !== box || !keys[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  show(0);
  return { box, go };
}

// Drawn when it is opened: a page may have hundreds of them. data-step: where to begin, also when it is open already.
function playerBox(graph, answer, name, toStep) {
  const inner = make("details", { class: "replay" }, make("summary", {}, "play the search on its graph"));
  let made = null;
  inner.addEventListener("toggle", async () => {
    if (!inner.open || made) return;
    const { replay, steps: moves } = answer;
    const search = { ...replay, moves, more: answer.steps_total - moves.length };
    made = player(await graph(replay.graph), search, name, toStep, Math.max(300, inner.clientWidth - 28));
    inner.append(made.box);
    if (inner.dataset.step !== undefined) made.go(Number(inner.dataset.step));
  });
  inner.addEventListener("step", () => { if (made) made.go(Number(inner.dataset.step)); });
  return inner;
}
