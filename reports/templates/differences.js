
"use strict";
// The difference of two methods on each question, as a drawing.

function names(data) {
  const models = new Set(data.methods.map((m) => m.model));
  return data.methods.map((m) => (models.size > 1 && m.model !== "–" ? `${m.label} (${m.model})` : m.label));
}

function pairs(data, a, b) {
  const both = [];
  data.ids.forEach((id, i) => {
    const [x, y] = [data.values[a][i], data.values[b][i]];
    if (x !== null && y !== null) both.push({ id, d: x - y });
  });
  return both.sort((p, q) => q.d - p.d);
}

function differenceChart(both, wide, open) {
  const [high, left, top] = [230, 46, 10];
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img" });
  // The list is sorted, so the largest difference is at one of its ends.
  const largest = Math.max(Math.abs(both[0].d), Math.abs(both[both.length - 1].d));
  const most = [0.1, 0.2, 0.4, 0.6, 0.8, 1].find((round) => largest <= round) || largest;
  const y = (d) => top + (high - 2 * top) * (1 - (d / most + 1) / 2);
  for (const tick of [-most, -most / 2, 0, most / 2, most]) {
    svg.append(draw("line", { x1: left, x2: wide - 8, y1: y(tick), y2: y(tick), class: tick === 0 ? "axis" : "grid" }));
    svg.append(draw("text", { x: left - 6, y: y(tick) + 4, class: "tick end" }, (100 * tick).toFixed(0)));
  }
  // More questions than pixels: every bar is then one of them, evenly spread; the order keeps the shape.
  const bars = Math.min(both.length, Math.floor(0.92 * (wide - left)));
  const step = Math.min(60, (wide - 8 - left) / bars);
  for (let i = 0; i < bars; i += 1) {
    const pair = both[Math.floor((i * both.length) / bars)];
    const flat = Math.abs(y(pair.d) - y(0)) < 1;
    const bar = draw("rect", {
      x: (left + i * step).toFixed(2), width: Math.max(step * 0.86, 0.6).toFixed(2),
      y: flat ? y(0) - 1 : Math.min(y(0), y(pair.d)), height: flat ? 2 : Math.abs(y(pair.d) - y(0)),
      class: pair.d > 0 ? "up" : pair.d < 0 ? "down" : "zero", "data-question": pair.id,
    }, draw("title", {}, `${pair.id}: ${pair.d > 0 ? "+" : ""}${percent(pair.d)}`));
    bar.addEventListener("click", () => open(pair.id));
    svg.append(bar);
  }
  const mean = both.reduce((sum, p) => sum + p.d, 0) / both.length;
  svg.append(draw("line", { x1: left, x2: wide - 8, y1: y(mean), y2: y(mean), class: "mean" },
    draw("title", {}, `mean ${percent(mean)}`)));
  return svg;
}

// state: {a, b} the places of the two methods; changed(): called after another was chosen, open(id): for a click.
function differences(place, data, state) {
  if (data.methods.length < 2) return;
  const labels = names(data);
  const summary = make("p", { class: "legend" });
  const chart = make("div", {});
  let wide = 0;
  const redraw = () => {
    wide = place.clientWidth || 940;
    const both = pairs(data, state.a, state.b);
    chart.replaceChildren();
    if (!both.length) {
      summary.textContent = "These two have no scored question in common.";
      return;
    }
    const count = (test) => both.filter((p) => test(p.d)).length.toLocaleString("en");
    const mean = both.reduce((sum, p) => sum + p.d, 0) / both.length;
    summary.textContent = `${counted(both.length, "question")}: ${labels[state.a]} better on ${count((d) => d > 0)}, equal on ` +
      `${count((d) => d === 0)}, worse on ${count((d) => d < 0)}; mean difference ${percent(mean)} (dashed). ` +
      "Each bar is a question, sorted; click one to read it.";
    const svg = differenceChart(both, wide, state.open);
    svg.setAttribute("aria-label", `${labels[state.a]} minus ${labels[state.b]}`);
    chart.append(svg);
  };
  const choose = () => {
    [state.a, state.b] = [Number(first.value), Number(second.value)];
    redraw();
    state.changed();
  };
  const [first, second] = [chooser(labels, state.a, choose), chooser(labels, state.b, choose)];
  place.append(make("h3", {}, "Differences by question"),
    make("div", { class: "bar-of-choices" }, make("label", {}, `${data.score} of `, first), make("label", {}, "minus ", second)),
    chart, saveBar(`${data.name} differences by question`, () => chart.querySelector("svg")), summary);
  redraw();
  addEventListener("resize", () => { if (Math.abs(place.clientWidth - wide) > 20) redraw(); });
}
