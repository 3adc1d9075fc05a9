// The picture of what looks alike: a box a class, coloured by group, lines between look-alikes.

import { button, calm, draw, find, make, newId, say } from "./dom.js";
import { addPhotosOf, goToClass } from "./board.js";
import { groupBadge, groupClass } from "./groups.js";
import { layOut } from "./layout.js";
import { mayTeach, studio } from "./state.js";
import { byName, counted, listed } from "./words.js";

const LETTER = 13;       // size of type in the picture
const BOXES = 120;       // more classes than this are dots, with names where there is room
const ANIMATED = 200;
const DENSE = 2.5;       // lines a class, from which on they are fainter
const LONGEST = 22;
const MARGIN = 24;
const MOVE = 600;        // milliseconds

const ruler = document.createElement("canvas").getContext("2d");
ruler.font = `500 ${LETTER}px system-ui, sans-serif`;

let nodes = [], pairs = [], byLabel = new Map(), places = new Map(), boxed = true;
let svg = null, scale = 1, chosen = "", stop = 0, moving = 0;

const shortened = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name);

const read = () => {
  const classes = [...studio.classes].sort((a, b) => byName(a.name, b.name));
  boxed = classes.length <= BOXES;
  nodes = classes.map((one) => {
    const text = shortened(one.name), width = ruler.measureText(`${text} ${one.group}`).width;
    return { ...one, text, w: boxed ? width / 2 + 17 : 6, h: boxed ? 14 : 6, alike: [] };
  });
  byLabel = new Map(nodes.map((node, i) => [node.name, i]));
  pairs = (studio.model.edges ?? []).map(([a, b, distance]) => [byLabel.get(a), byLabel.get(b), distance]).filter(([i, k]) => i !== undefined && k !== undefined);
  for (const [i, k, distance] of pairs) {
    nodes[i].alike.push([k, distance]);
    nodes[k].alike.push([i, distance]);
  }
  for (const node of nodes) node.alike.sort((a, b) => a[1] - b[1]);
};

const frameSize = () => {
  const frame = find("graph-frame");
  return [Math.max(frame.clientWidth, 280), Math.max(frame.clientHeight, 280)];
};

// The frame, or more than it where boxes and lines would be too crowded: it scrolls.
const room = () => {
  const [width, height] = frameSize(), wanted = nodes.reduce((sum, { w, h }) => sum + 4 * (w + 8) * (h + 10), 0) * (boxed ? 2.8 : 5);
  const grown = Math.sqrt(Math.max(wanted / (width * height), 1));
  return [width * grown, height * grown];
};

const bounds = (spots) => {
  const edge = (key, half, sign) => sign * Math.max(...nodes.map((node, i) => sign * spots[i][key] + node[half]));
  const [left, right, top, bottom] = [edge("x", "w", -1), edge("x", "w", 1), edge("y", "h", -1), edge("y", "h", 1)];
  return { x: left - MARGIN, y: top - MARGIN, width: right - left + 2 * MARGIN, height: bottom - top + 2 * MARGIN };
};

// What is written on a box is its name, for voices that are told to press it; the rest describes it.
const aboutNode = (node) => {
  const alike = node.alike.map(([k]) => nodes[k].name);
  const whole = node.text === node.name ? "" : `${node.name}, `;
  return `${whole}group ${node.group}, ${alike.length ? `looks like ${listed(alike, 4)}` : "looks like no other"}`;
};

const drawBox = (node) => [
  draw("rect", { x: -node.w, y: -node.h, width: 2 * node.w, height: 2 * node.h, rx: node.h }),
  draw("text", { x: -9, "text-anchor": "middle", dy: "0.35em" }, node.text),
  draw("circle", { class: "number-back", cx: node.w - 14, r: 9 }),
  draw("text", { class: "number", x: node.w - 14, "text-anchor": "middle", dy: "0.35em" }, ` ${node.group}`),
];

const drawDot = (node) => [draw("circle", { class: "dot" }), draw("text", { class: "dot-name", dy: "0.35em" }, node.text)];

const drawNode = (node, i) => {
  const about = newId("node");
  return draw("g", {
    class: `node ${groupClass(node.group)}`, role: "button", tabindex: i === stop ? 0 : -1, "aria-pressed": String(node.name === chosen),
    "aria-describedby": about, "data-name": node.name,
  }, draw("desc", { id: about }, aboutNode(node)), ...(boxed ? drawBox(node) : drawDot(node)));
};

const near = (a, b) => Math.abs(a - b) < 1e-6;

// Nodes stay the same elements while a class stays, so that the colour is seen to change.
const buildSvg = () => {
  const old = new Map(Array.from(svg?.querySelectorAll(".node") ?? [], (node) => [node.dataset.name, node]));
  const fresh = !svg || svg.classList.contains("dots") === boxed;
  if (fresh) {
    svg = draw("svg", { class: boxed ? "graph" : "graph dots", role: "group", "aria-label": "Classes; arrow keys go from one to the next" }, draw("g", { class: "edges" }), draw("g", { class: "nodes" }));
    find("graph-frame").replaceChildren(svg);
    listen();
  }
  svg.classList.toggle("dense", pairs.length > DENSE * nodes.length);
  const [edges, group] = svg.children;
  nodes.forEach((node, i) => {
    const made = drawNode(node, i), there = fresh ? null : old.get(node.name);
    if (!there) {
      node.element = made;
      return;
    }
    there.setAttribute("class", made.getAttribute("class"));
    for (const name of ["aria-describedby", "tabindex", "aria-pressed"]) there.setAttribute(name, made.getAttribute(name));
    there.replaceChildren(...made.children);
    node.element = there;
  });
  group.replaceChildren(...nodes.map(({ element }) => element));
  edges.replaceChildren(...pairs.map(() => draw("line", { class: "edge" })));
};

const put = (spots) => {
  nodes.forEach(({ element }, i) => element.setAttribute("transform", `translate(${spots[i].x.toFixed(1)} ${spots[i].y.toFixed(1)})`));
  const lines = svg.firstElementChild.children;
  pairs.forEach(([i, k], l) => {
    for (const [name, value] of [["x1", spots[i].x], ["y1", spots[i].y], ["x2", spots[k].x], ["y2", spots[k].y]]) lines[l].setAttribute(name, value.toFixed(1));
  });
};

const spotsNow = () => nodes.map(({ name }) => places.get(name));

// Names of dots, where there is room for them at this size; those with the most look-alikes first.
const nameDots = () => {
  if (boxed) return;
  const taken = [], spots = spotsNow(), size = 12 / scale;
  svg.style.setProperty("--letter", `${size}px`);
  svg.style.setProperty("--dot", `${Math.max(4.5 / scale, 3)}px`);
  const order = nodes.map((node, i) => i).sort((a, b) => (nodes[b].name === chosen) - (nodes[a].name === chosen) || nodes[b].alike.length - nodes[a].alike.length || a - b);
  for (const i of order) {
    const width = ruler.measureText(nodes[i].text).width * size / LETTER + 14 / scale, { x, y } = spots[i];
    const box = { left: x, right: x + width, top: y - size * 0.7, bottom: y + size * 0.7 };
    const free = !taken.some((other) => box.left < other.right && box.right > other.left && box.top < other.bottom && box.bottom > other.top);
    if (free) taken.push(box);
    nodes[i].element.classList.toggle("nameless", !free);
    nodes[i].element.querySelector("text").setAttribute("x", 9 / scale);
  }
};

const setScale = (wanted) => {
  const frame = find("graph-frame"), area = bounds(spotsNow());
  const middle = [(frame.scrollLeft + frame.clientWidth / 2) / scale, (frame.scrollTop + frame.clientHeight / 2) / scale];
  scale = Math.min(Math.max(wanted, 0.15), 3);
  if (!boxed) area.width += 120 / scale;  // names of the rightmost dots
  svg.setAttribute("viewBox", [area.x, area.y, area.width, area.height].map((v) => v.toFixed(1)).join(" "));
  svg.setAttribute("width", Math.round(area.width * scale));
  svg.setAttribute("height", Math.round(area.height * scale));
  frame.scrollLeft = middle[0] * scale - frame.clientWidth / 2;
  frame.scrollTop = middle[1] * scale - frame.clientHeight / 2;
  nameDots();
};

const fit = () => {
  const [width, height] = frameSize(), area = bounds(spotsNow());
  const whole = Math.min((width - 2) / area.width, (height - 2) / area.height, 1.25);
  setScale(boxed ? Math.max(whole, 0.8) : Math.max(whole, 0.3));  // smaller could not be read; the frame scrolls
  const frame = find("graph-frame");
  frame.scrollLeft = (svg.clientWidth - frame.clientWidth) / 2;
  frame.scrollTop = (svg.clientHeight - frame.clientHeight) / 2;
};

const move = (from, to) => {
  cancelAnimationFrame(moving);
  const still = from.every((spot, i) => near(spot.x, to[i].x) && near(spot.y, to[i].y));
  if (still || calm() || nodes.length > ANIMATED || document.hidden) {
    put(to);
    return;
  }
  const start = performance.now();
  const step = (now) => {
    const t = Math.min(Math.max((now - start) / MOVE, 0), 1), eased = 1 - (1 - t) ** 3;
    put(to.map((spot, i) => ({ x: from[i].x + (spot.x - from[i].x) * eased, y: from[i].y + (spot.y - from[i].y) * eased })));
    if (t < 1) moving = requestAnimationFrame(step);
  };
  put(from);
  moving = requestAnimationFrame(step);
};

const mark = (name) => {
  const i = byLabel.get(name), alike = new Set(i === undefined ? [] : nodes[i].alike.map(([k]) => k));
  svg.classList.toggle("focused", i !== undefined);
  nodes.forEach(({ element, group }, k) => {
    element.classList.toggle("chosen", k === i);
    element.classList.toggle("alike", alike.has(k));
    element.classList.toggle("kin", i !== undefined && k !== i && group === nodes[i].group);
  });
  const lines = svg.firstElementChild.children;
  pairs.forEach(([a, b], l) => lines[l].classList.toggle("lit", a === i || b === i));
};

const link = (k) => button(nodes[k].name, () => { choose(nodes[k].name); nodes[k].element.focus(); }, { class: "link" });

const showPanel = () => {
  const panel = find("graph-panel"), i = byLabel.get(chosen);
  if (i === undefined) {
    panel.replaceChildren(make("p", { class: "note" }, "Choose a class to see what it looks like, and which classes share its group."));
    return;
  }
  const node = nodes[i], kin = nodes.map((one, k) => k).filter((k) => k !== i && nodes[k].group === node.group);
  const list = (heading, items) => items.length ? [make("h4", {}, heading), make("ul", {}, ...items.slice(0, 12).map((k) => make("li", {}, link(k)))), items.length > 12 ? make("p", { class: "hint" }, `and ${items.length - 12} more`) : null] : [];
  panel.replaceChildren(...[
    make("h3", {}, node.name), make("p", {}, groupBadge(node.group), ` ${counted(node.photos, "photo")}`),
    ...list("Looks like", node.alike.map(([k]) => k)),
    node.alike.length ? null : make("p", { class: "hint" }, "Looks like no other class."),
    ...list("Same group, not alike", kin),
    make("div", { class: "row tight" }, button("Go to its card", () => goToClass(node.name), { class: "small" }), mayTeach() ? button("Add photos", () => addPhotosOf(node.name), { class: "small" }) : null),
  ].filter(Boolean));
};

const choose = (name) => {
  chosen = chosen === name ? "" : name;
  nodes.forEach(({ element, name: own }) => element.setAttribute("aria-pressed", String(own === chosen)));
  mark(chosen);
  showPanel();
  nameDots();
};

const setStop = (i) => {
  nodes[stop]?.element.setAttribute("tabindex", "-1");
  stop = i;
  nodes[stop].element.setAttribute("tabindex", "0");
};

// The nearest class in the direction of an arrow key.
const towards = (from, dx, dy) => {
  const spots = spotsNow();
  let best = from, least = Infinity;
  spots.forEach(({ x, y }, k) => {
    const along = (x - spots[from].x) * dx + (y - spots[from].y) * dy, across = Math.abs((x - spots[from].x) * dy) + Math.abs((y - spots[from].y) * dx);
    const cost = along + 2 * across;
    if (k !== from && along > 1 && cost < least) [best, least] = [k, cost];
  });
  return best;
};

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const onKey = (event) => {
  const i = byLabel.get(event.target.closest(".node")?.dataset.name);
  if (i === undefined) return;
  if (event.key === "Enter" || event.key === " ") choose(nodes[i].name);
  else if (event.key === "Escape") choose(chosen);
  else if (event.key === "Home" || event.key === "End") nodes[event.key === "Home" ? 0 : nodes.length - 1].element.focus();
  else if (ARROWS[event.key]) nodes[towards(i, ...ARROWS[event.key])].element.focus();
  else return;
  event.preventDefault();
};

const listen = () => {
  const nameAt = (event) => event.target.closest(".node")?.dataset.name;
  svg.addEventListener("keydown", onKey);
  svg.addEventListener("click", (event) => choose(nameAt(event) ?? chosen));
  svg.addEventListener("focusin", (event) => { const i = byLabel.get(nameAt(event)); if (i !== undefined) setStop(i); });
  svg.addEventListener("pointerover", (event) => { if (event.pointerType === "mouse" && !chosen) mark(nameAt(event) ?? ""); });
  svg.addEventListener("pointerleave", () => { if (!chosen) mark(""); });
};

const search = () => {
  const text = find("graph-search").value.trim().toLowerCase();
  svg?.classList.toggle("searching", text !== "");
  const hits = nodes.filter((node) => {
    const hit = text !== "" && node.name.toLowerCase().includes(text);
    node.element?.classList.toggle("found", hit);
    return hit;
  });
  if (hits.length === 1) hits[0].element.scrollIntoView({ block: "nearest", inline: "center" });
  return hits;
};

const table = () => {
  const rows = nodes.map((node) => make("tr", {}, make("th", { scope: "row" }, node.name), make("td", {}, String(node.group)), make("td", {}, listed(node.alike.map(([k]) => nodes[k].name), 20) || "no other class")));
  find("graph-table").replaceChildren(make("table", {}, make("caption", { class: "unseen" }, "Classes, their groups and look-alikes"),
    make("thead", {}, make("tr", {}, ...["Class", "Group", "Looks like"].map((text) => make("th", { scope: "col" }, text)))), make("tbody", {}, ...rows)));
};

const caption = () => {
  const groups = new Set(nodes.map(({ group }) => group)).size;
  find("graph-caption").textContent = `${counted(nodes.length, "class")} in ${counted(groups, "group")}. Lines join classes that look alike; colour and number are the group, in which no two are alike. `
    + (pairs.length ? "" : "So far no two classes look alike.");
};

const show = () => {
  if (find("alike").hidden) return;
  const focused = document.activeElement?.closest?.("#graph-frame .node")?.dataset.name;
  read();
  stop = byLabel.get(focused) ?? byLabel.get(chosen) ?? 0;
  if (!byLabel.has(chosen)) chosen = "";
  const spots = layOut(nodes, pairs, places, room());
  const from = nodes.map(({ name }, i) => places.get(name) ?? spots[i]);
  places = new Map(nodes.map(({ name }, i) => [name, spots[i]]));
  buildSvg();
  fit();
  move(from, spots);
  mark(chosen);
  showPanel();
  caption();
  search();
  if (find("graph-text").open) table();
  if (focused) nodes[stop].element.focus({ preventScroll: true });
};

export const startGraph = () => {
  find("graph-smaller").addEventListener("click", () => setScale(scale / 1.25));
  find("graph-larger").addEventListener("click", () => setScale(scale * 1.25));
  find("graph-fit").addEventListener("click", fit);
  find("graph-search").addEventListener("input", () => {
    const hits = search();
    if (find("graph-search").value.trim()) say(`${counted(hits.length, "class")} found`);
  });
  find("graph-search").addEventListener("keydown", (event) => {
    const [first] = event.key === "Enter" ? search() : [];
    if (!first) return;
    if (chosen !== first.name) choose(first.name);
    first.element.focus();
  });
  find("graph-text").addEventListener("toggle", () => { if (find("graph-text").open) table(); });
  studio.addEventListener("changed", () => {
    find("alike").hidden = studio.classes.length < 2;
    show();
  });
};
