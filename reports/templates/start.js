
"use strict";
// What the page does when it is opened: tables sort at once; questions are unpacked one data set after the other, so
// that what is seen first does not wait. Then whatever the address names is opened.

function section(data, i) {
  const at = (kind) => document.querySelector(`.${kind}[data-place="${i}"]`);
  const rivals = data.methods.map((_, place) => place).filter((place) => place !== data.reference);
  const first = rivals.find((place) => !data.methods[place].upper_bound) ?? rivals[0] ?? 0;
  const state = { a: first, b: data.reference };
  const listed = new Questions(at("questions"), data, i, state);
  state.changed = () => listed.list();
  state.open = (id) => go(address(data, id));
  differences(at("differences"), data, state);
  return listed;
}

const sections = DATA.map(() => null);

async function opened(i) {
  sections[i] = sections[i] || unpack(`d${i}-list`).then((list) => section({ ...DATA[i], ...list }, i));
  return sections[i];
}

async function follow() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const i = DATA.findIndex((data) => data.name === wanted.get("d"));
  if (i < 0 || !wanted.has("q")) return;
  await (await opened(i)).open(wanted.get("q"), wanted.get("m") ?? undefined, wanted.get("s") ?? undefined);
}

function go(to) {
  if (location.hash === to) follow(); else location.hash = to;
}

async function start() {
  if (typeof DecompressionStream === "undefined") {
    document.querySelectorAll(".questions").forEach((place) => place.append(
      make("p", { class: "error" }, "This browser cannot unpack the questions; browsers since 2023 can.")));
    return;
  }
  document.querySelectorAll(".save[data-file]").forEach((place) => {
    if (document.getElementById(`${place.dataset.file}-svg`)) place.replaceWith(saveBar(place.dataset.name, null, place.dataset.file));
  });
  addEventListener("hashchange", follow);
  for (let i = 0; i < DATA.length; i += 1) await opened(i);
  await follow(); // last: until then parts above it grow
  document.body.dataset.ready = "yes";
}

document.querySelectorAll("table.sortable").forEach(sortable);
document.querySelectorAll("#leaderboard").forEach(leaderboard);
start();
