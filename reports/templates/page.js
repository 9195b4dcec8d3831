
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

function button(label, act, attributes = {}) {
  const made = make("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", act);
  return made;
}

function chooser(labels, chosen, act) {
  const select = make("select", {}, ...labels.map((label, i) => make("option", { value: i }, label)));
  select.value = chosen;
  select.addEventListener("change", act);
  return select;
}

const percent = (value) => (value === null || value === undefined ? "–" : (100 * value).toFixed(1));
const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const whole = (number) => (number === null || number === undefined ? "" : String(number));

// ---- compressed blocks: see reports/compressed_json.py --------------------------------------------------------

async function unpackText(name) {
  const packed = atob(document.getElementById(name).textContent);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i += 1) bytes[i] = packed.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")));
}

const unpack = async (name) => (await unpackText(name)).json();

// ---- links: #d=DATA_SET&q=QUESTION&m=RUN&s=STEP ---------------------------------------------------------------

const address = (data, question, run, step) => "#" + Object.entries({ d: data.name, q: question, m: run, s: step })
  .filter(([, value]) => value !== undefined)
  .map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");

const link = (words, to, title) => make("a", { href: to, title }, words);

// ---- tables that sort -----------------------------------------------------------------------------------------

// Up or down: text begins with A, a number with the largest, the second click turns it round.
function turned(heads, head) {
  const up = head.getAttribute("aria-sort") === "descending" ||
    (!head.hasAttribute("aria-sort") && !head.classList.contains("number"));
  heads.forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  return up;
}

// Compare two values of which null, for unknown, is always last.
function ordered(x, y, up) {
  if (x === null || y === null) return (x === null) - (y === null);
  const order = typeof x === "number" ? x - y : x.localeCompare(y, undefined, { numeric: true });
  return up ? order : -order;
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.addEventListener("click", () => {
    const up = turned(heads, head);
    const value = (row) => {
      const cell = row.cells[column];
      if (!head.classList.contains("number")) return cell.textContent;
      return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => ordered(value(a), value(b), up)));
  }));
}
