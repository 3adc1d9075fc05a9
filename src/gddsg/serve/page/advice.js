// What would help most, from the statistics of the classes.

import { addPhotosOf, goToClass } from "./board.js";
import { button, find, icon, make } from "./dom.js";
import { mayTeach, studio } from "./state.js";
import { counted } from "./words.js";

const FIRST = 4;
const ICONS = { overlap: "overlap", few: "few", unlike: "unlike", copies: "copies" };
let showAll = false;

const actionsOf = ({ kind, classes }) => {
  const adding = mayTeach() && (kind === "overlap" || kind === "few" || kind === "copies");
  return classes.slice(0, 2).map((name) => (adding
    ? button(`Add photos of ${name}`, () => addPhotosOf(name), { class: "quiet small" })
    : button(`Show ${name}`, () => goToClass(name), { class: "quiet small" })));
};

const itemOf = (one) => make("li", { class: `advice-${ICONS[one.kind] ?? "few"}` }, icon(ICONS[one.kind] ?? "warning"),
  make("div", {}, make("p", {}, one.text), make("div", { class: "row tight" }, ...actionsOf(one))));

const show = () => {
  const all = studio.advice ?? [], more = find("advice-more");
  find("advice").hidden = !all.length;
  find("advice-list").replaceChildren(...(showAll ? all : all.slice(0, FIRST)).map(itemOf));
  more.hidden = all.length <= FIRST;
  more.textContent = showAll ? "Show less" : `Show all ${counted(all.length, "hint")}`;
  more.setAttribute("aria-expanded", String(showAll));
};

export const startAdvice = () => {
  find("advice-more").addEventListener("click", () => { showAll = !showAll; show(); });
  studio.addEventListener("changed", show);
};
