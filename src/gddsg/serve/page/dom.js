// Small helpers to build the page. Text goes in as text nodes only: names of classes and files are never markup.

const SVG = "http://www.w3.org/2000/svg";

export const find = (id) => document.getElementById(id);

const dress = (made, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
};

export const make = (tag, attributes = {}, ...children) => dress(document.createElement(tag), attributes, children);

export const draw = (tag, attributes = {}, ...children) => dress(document.createElementNS(SVG, tag), attributes, children);

export const button = (text, onclick, attributes = {}) => make("button", { type: "button", onclick, ...attributes }, text);

// Icons are named <symbol>s of the page, so that no script has to hold drawings.
export const icon = (name) =>
  draw("svg", { class: "icon", "aria-hidden": "true", focusable: "false" }, draw("use", { href: "#icon-" + name }));

export const iconButton = (name, label, onclick, attributes = {}) => {
  const made = make("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...attributes });
  made.append(icon(name));
  return made;
};

let said = 0;

// Tells readers of the screen what happened; the same text twice in a row is still read twice.
export const say = (text) => {
  const region = find("said");
  said += 1;
  region.textContent = text + (said % 2 ? "" : "\u00a0");
};

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export const reveal = (node, block = "nearest") => node.scrollIntoView({ block, inline: "nearest", behavior: calm() ? "auto" : "smooth" });

let numbered = 0;

export const newId = (stem) => `${stem}-${(numbered += 1)}`;

// A message in its place; `problem` is a StudioError, a text or nothing.
export const showProblem = (place, problem) => {
  place.replaceChildren();
  place.hidden = !problem;
  if (!problem) return;
  const words = make("span", {}, problem.message ?? problem);
  if (problem.hint) words.append(make("span", { class: "hint" }, " " + problem.hint));
  place.append(icon("warning"), words);
};
