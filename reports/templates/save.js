
"use strict";
// Files of the figures. Those drawn by matplotlib come with the page as SVG and PDF; those drawn here are written from
// what is seen. A PNG is drawn from the SVG by the browser.

function download(blob, name) {
  const url = URL.createObjectURL(blob);
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

const SHAPES = ["fill", "stroke", "stroke-width", "stroke-dasharray"];
const TEXTS = ["fill", "font-family", "font-size", "font-weight", "text-anchor"];

const HEAD = 28; // the height of a title above a figure

// The SVG as a file below its title: styles of the page become attributes, and what is not shown is left out.
function svgFile(svg, title) {
  const [, , wide, high] = svg.getAttribute("viewBox").split(" ").map(Number);
  const copy = svg.cloneNode(true);
  const [from, to] = [svg.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    if (style.display === "none" && node.tagName !== "title") { to[i].remove(); return; }
    const shown = { text: TEXTS, title: [], g: [] }[node.tagName] || SHAPES;
    shown.forEach((name) => to[i].setAttribute(name, style.getPropertyValue(name)));
    to[i].removeAttribute("class");
  });
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("width", wide);
  copy.setAttribute("height", high + HEAD);
  copy.setAttribute("viewBox", `0 ${-HEAD} ${wide} ${high + HEAD}`);
  copy.removeAttribute("class");
  copy.removeAttribute("style");
  const { backgroundColor, color } = getComputedStyle(document.body);
  copy.prepend(draw("rect", { y: -HEAD, width: "100%", height: "100%", fill: backgroundColor }),
    draw("text", { x: 8, y: -9, fill: color, "font-family": "sans-serif", "font-size": "14px", "font-weight": 600 },
      [title, svg.getAttribute("aria-label")].filter(Boolean).join(": ")));
  return new XMLSerializer().serializeToString(copy);
}

// Three pixels a unit of the drawing, as far as browsers draw pictures of that size.
async function png(source) {
  const picture = new Image();
  const url = URL.createObjectURL(new Blob([source], { type: "image/svg+xml" }));
  picture.src = url;
  await picture.decode();
  const scale = Math.min(3, 8000 / Math.max(picture.width, picture.height));
  const canvas = make("canvas", { width: Math.round(picture.width * scale), height: Math.round(picture.height * scale) });
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}

// Only this figure, on a sheet of its size: the browser's own PDF keeps text as text, in every script.
function printed(svg) {
  const [, , wide, high] = svg.getAttribute("viewBox").split(" ").map(Number);
  const sheet = document.styleSheets[0];
  const rule = sheet.insertRule(`@page { size: ${wide}px ${high + 2}px; margin: 0; }`, sheet.cssRules.length);
  const around = [];
  for (let node = svg.parentElement; node; node = node.parentElement) around.push(node);
  around.forEach((node) => node.classList.add("around"));
  svg.classList.add("printed");
  print();
  around.forEach((node) => node.classList.remove("around"));
  svg.classList.remove("printed");
  sheet.deleteRule(rule);
}

// "Save as" buttons; svg(): the drawing of this moment, file: blocks with a finished SVG and PDF instead.
function saveBar(name, svg, file) {
  const stem = name.replace(/[^\p{L}\p{N}.-]+/gu, "-");
  const source = async () => (file ? (await unpackText(`${file}-svg`)).text() : svgFile(svg(), name));
  const save = {
    SVG: async () => download(new Blob([await source()], { type: "image/svg+xml" }), `${stem}.svg`),
    PNG: async () => download(await png(await source()), `${stem}.png`),
    PDF: async () => (file ? download(new Blob([await (await unpackText(`${file}-pdf`)).blob()], { type: "application/pdf" }), `${stem}.pdf`) : printed(svg())),
  };
  return make("div", { class: "save" }, "Save: ", ...Object.entries(save).map(([form, act]) =>
    button(form, act, { title: form === "PDF" && !file ? "by the browser's print dialog" : `${stem}.${form.toLowerCase()}` })));
}
