// Plays a search in node, on a stand-in for the few parts of a browser that templates/player.js uses.
// node play.js data.json page.js save.js player.js  ->  what is seen after each key, as JSON
"use strict";
const fs = require("fs");
const vm = require("vm");

class Classes extends Set {
  toggle(name, on) { if (on === undefined ? !this.has(name) : on) this.add(name); else this.delete(name); return this.has(name); }
  contains(name) { return this.has(name); }
}

class Element {
  constructor(tag) {
    Object.assign(this, { tag, attributes: {}, children: [], listeners: {}, style: {}, dataset: {}, words: "", isConnected: true });
    this.classList = new Classes();
  }
  setAttribute(name, value) {
    this.attributes[name] = String(value);
    if (name === "class") String(value).split(" ").forEach((c) => this.classList.add(c));
    if (name === "value") this.value = String(value);
  }
  append(...more) { this.children.push(...more); }
  prepend(...more) { this.children.unshift(...more); }
  removeAttribute(name) { delete this.attributes[name]; }
  addEventListener(name, act) { this.listeners[name] = act; }
  fire(name, event = {}) { return this.listeners[name]({ target: this, preventDefault() {}, ...event }); }
  set textContent(words) { this.words = String(words); this.children = []; }
  get textContent() { return this.words + this.children.map((c) => (c instanceof Element ? c.textContent : String(c))).join(""); }
  all(test) { return this.children.filter((c) => c instanceof Element).flatMap((c) => [...(test(c) ? [c] : []), ...c.all(test)]); }
  having(name) { return this.all((e) => e.classList.has(name)); }
}

const data = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const document = {
  getElementById: () => ({ textContent: "[]" }),
  createElement: (tag) => new Element(tag),
  createElementNS: (_, tag) => new Element(tag),
  querySelectorAll: () => [],
};
let tick = null;
const context = vm.createContext({ document, setInterval: (act) => { tick = act; return 1; }, clearInterval: () => { tick = null; } });
const source = process.argv.slice(3).map((name) => fs.readFileSync(name, "utf8")).join("");
vm.runInContext(`${source}\nglobalThis.playerBox = playerBox;`, context);

(async () => {
const outer = context.playerBox(async (n) => data.graphs[n], data.questions[0].answers[0], "pecan", (step) => `#s=${step}`);
outer.open = true;
await outer.fire("toggle");
const [box] = outer.having("player");
const [graph] = box.having("graph");
const nodes = graph.all((e) => e.tag === "g" && e.classList.has("node"));
const at = (name) => nodes.map((n, i) => [n, i]).filter(([n]) => n.classList.has(name)).map(([, i]) => i);

function seen() {
  return {
    step: box.having("legend")[0].textContent,
    text: box.having("prediction")[0].textContent,
    visited: at("visited").map((i) => `${i}:${nodes[i].having("number")[0].textContent}`),
    later: at("later"),
    current: at("current"),
    taken: graph.having("taken").filter((line) => !line.classList.has("off")).length,
  };
}

const key = (name) => box.fire("keydown", { key: name });
const [slider] = box.all((e) => e.tag === "input");
const play = box.all((e) => e.tag === "button")[2];
const [here] = box.all((e) => e.tag === "a");
const out = { first: seen(), edges: graph.having("edge").map((e) => e.attributes.d), probes: box.having("probe").length };
key("ArrowRight"); key("ArrowRight");
out["right, right"] = seen();
out.link = here.attributes.href;
key("End"); key("ArrowRight");
out.end = seen();
key("Home"); key("ArrowLeft");
out.home = seen();
slider.value = 3;
slider.fire("input");
out["slider to 3"] = seen();
play.fire("click");
if (play.textContent !== "Pause") throw new Error("play does not offer a pause");
tick();
out.played = seen();
play.fire("click");
if (play.textContent !== "Play" || tick !== null) throw new Error("pause does not stop");
outer.dataset.step = "5";
outer.fire("step");
out["linked to 5"] = seen();
process.stdout.write(JSON.stringify(out));
})();
