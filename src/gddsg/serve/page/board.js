// The classes, a card each. Cards are kept from one change to the next, so that focus and pictures stay.

import { rename } from "./api.js";
import { button, calm, find, icon, iconButton, make, newId, reveal, say, showProblem } from "./dom.js";
import { acceptDrops, filesOfInput } from "./files.js";
import { groupBadge, groupClass } from "./groups.js";
import { thumbnail } from "./pictures.js";
import { mayTeach, refresh, studio } from "./state.js";
import { teachMore } from "./teach.js";
import { forgetClass } from "./undo.js";
import { byName, counted, percent } from "./words.js";

const PICTURES = 5;
const CHUNK = 60;
const FIRST = () => (matchMedia("(max-width: 46rem)").matches ? 8 : 24);

const ORDERS = {
  name: (a, b) => byName(a.name, b.name),
  group: (a, b) => a.group - b.group || byName(a.name, b.name),
  few: (a, b) => a.photos - b.photos || byName(a.name, b.name),
  overlap: (a, b) => worst(b) - worst(a) || byName(a.name, b.name),
};
const worst = (one) => Math.max(0, ...(one.overlaps ?? []).map(({ error }) => error));

const cards = new Map();
let showAll = false, turn = 0;

const choosePhotos = (name) => {
  const input = make("input", { type: "file", accept: "image/*,.heic,.heif", multiple: true });
  input.addEventListener("change", () => { if (input.files.length) teachMore(name, filesOfInput(input)); });
  input.click();
};

const mixedUp = (one) => {
  const [first] = [...(one.overlaps ?? [])].sort((a, b) => b.error - a.error);
  if (!first) return null;
  return make("p", { class: "mixed" }, icon("overlap"), make("span", {}, `like ${first.name}, ${percent(first.error)} mixed up`));
};

const startRename = (card, one) => {
  const id = newId("rename"), problem = make("p", { class: "problem", role: "alert", hidden: true });
  const input = make("input", { id, type: "text", maxlength: 200, autocomplete: "off", spellcheck: "false", value: one.name });
  const close = () => {
    form.remove();
    card.item.classList.remove("renaming");
    card.item.querySelector(".rename")?.focus();
  };
  const save = async (event) => {
    event.preventDefault();
    const other = input.value.trim();
    if (other === one.name) return close();
    if (!other) return showProblem(problem, "The class needs a name.");
    try {
      await rename(one.name, other);
      await refresh();
      close();  // by now the card shows another name, or it is another card
      say(`${one.name} is now called ${other}.`);
      cards.get(other)?.item.querySelector(".rename")?.focus();
    } catch (error) {
      showProblem(problem, error);
      input.focus();
    }
    return undefined;
  };
  const form = make("form", { class: "rename-form", onsubmit: save },
    make("label", { for: id, class: "unseen" }, `New name of ${one.name}`), input,
    make("div", { class: "row tight" }, make("button", { type: "submit", class: "main small" }, "Save"), button("Cancel", close, { class: "quiet small" })),
    problem);
  form.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  card.item.classList.add("renaming");
  card.item.append(form);
  input.focus();
  input.select();
};

const startForget = async (card, one, trigger) => {
  trigger.disabled = true;
  try {
    await forgetClass(one.name);
  } catch (error) {
    trigger.disabled = false;
    showProblem(card.problem, error);
    trigger.focus();
  }
};

const actions = (card, one) => {
  const forget = iconButton("bin", `Forget ${one.name}`, () => startForget(card, one, forget), { class: "icon-button forget" });
  return make("div", { class: "card-actions teaches" },
    iconButton("plus", `Add photos of ${one.name}`, () => choosePhotos(one.name), { class: "icon-button more-photos" }),
    iconButton("pen", `Rename ${one.name}`, () => startRename(card, one), { class: "icon-button rename" }), forget);
};

const newCard = (one) => {
  const title = newId("class");
  const card = { item: make("li", { "aria-labelledby": title, tabindex: "-1" }), shown: "" };
  card.name = make("h3", { id: title, class: "card-name", title: one.name }, one.name);
  card.about = make("p", { class: "card-facts" });
  card.mixed = make("div", {});
  card.pictures = make("div", { class: "card-pictures" });
  card.problem = make("p", { class: "problem", role: "alert", hidden: true });
  card.item.append(card.name, make("div", { class: "card-row" }, card.about, actions(card, one)), card.mixed, card.pictures, card.problem);
  acceptDrops(card.item, async (found) => { if (mayTeach()) teachMore(one.name, await found); });
  return card;
};

const fillPictures = (place, ids) => {
  const there = new Map(Array.from(place.children, (image) => [image.dataset.id, image]));
  place.replaceChildren(...ids.slice(0, PICTURES).map((id) => {
    const image = there.get(String(id)) ?? thumbnail(id);
    image.dataset.id = id;
    return image;
  }));
};

const fill = (card, one) => {
  const wanted = JSON.stringify(one);
  if (card.shown === wanted) return;
  const isNews = card.shown !== "";
  card.shown = wanted;
  card.item.className = `card ${groupClass(one.group)}` + (card.item.classList.contains("renaming") ? " renaming" : "");
  card.about.replaceChildren(groupBadge(one.group), make("span", {}, counted(one.photos, "photo")));
  card.mixed.replaceChildren(...[mixedUp(one)].filter(Boolean));
  fillPictures(card.pictures, one.thumbnails ?? []);
  if (isNews && !calm()) card.item.animate?.([{ opacity: 0.5 }, { opacity: 1 }], { duration: 400 });
};

const cardOf = (one) => {
  const card = cards.get(one.name) ?? newCard(one);
  cards.set(one.name, card);
  fill(card, one);
  return card.item;
};

const wanted = () => {
  const text = find("board-search").value.trim().toLowerCase();
  const some = text ? studio.classes.filter(({ name }) => name.toLowerCase().includes(text)) : [...studio.classes];
  return some.sort(ORDERS[find("board-order").value]);
};

// Put items in order with as few moves as possible: a card that is moved would lose the focus.
const arrange = (list, items) => {
  const keep = new Set(items);
  for (const child of [...list.children]) if (!keep.has(child)) child.remove();
  let place = list.firstElementChild;
  for (const item of items) {
    if (item === place) place = place.nextElementSibling;
    else list.insertBefore(item, place);
  }
};

// A thousand cards come a few at a time, between frames.
const fillBoard = (some) => {
  const list = find("board"), mine = (turn += 1);
  const next = (end) => {
    if (mine !== turn) return;
    arrange(list, some.slice(0, end).map(cardOf));
    if (end < some.length) requestAnimationFrame(() => next(end + CHUNK));
    else list.removeAttribute("aria-busy");
  };
  list.setAttribute("aria-busy", "true");
  next(Math.max(CHUNK, Math.min(list.children.length, some.length)));
};

const forgetGone = () => {
  const names = new Set(studio.classes.map(({ name }) => name));
  for (const name of cards.keys()) if (!names.has(name)) cards.delete(name);
};

const show = () => {
  const some = wanted(), first = FIRST(), all = studio.classes.length;
  const searching = find("board-search").value.trim() !== "";
  const cut = !showAll && some.length > first + 4;
  fillBoard(cut ? some.slice(0, first) : some);
  find("board-empty").hidden = all > 0;
  find("board-tools").hidden = all < 2;
  find("board-found").textContent = searching ? `${counted(some.length, "class")} found` : "";
  const more = find("board-more");
  more.hidden = !cut && !(showAll && some.length > first + 4);
  more.textContent = showAll ? "Show fewer" : `Show all ${counted(some.length, "class")}`;
  more.setAttribute("aria-expanded", String(showAll));
};

// Bring a class into sight, whatever the board shows just now.
export const goToClass = (name) => {
  const search = find("board-search");
  if (!wanted().slice(0, FIRST()).some((one) => one.name === name) && !showAll) {
    search.value = name;
    show();
  } else if (search.value) {
    search.value = "";
    show();
  }
  const item = cards.get(name)?.item;
  if (!item) return;
  reveal(item, "center");
  item.focus({ preventScroll: true });
};

export const addPhotosOf = choosePhotos;

export const startBoard = () => {
  find("board-search").addEventListener("input", show);
  find("board-order").addEventListener("change", show);
  find("board-more").addEventListener("click", () => {
    showAll = !showAll;
    show();
    if (!showAll) reveal(find("classes"), "start");
  });
  studio.addEventListener("changed", () => { forgetGone(); show(); });
};
