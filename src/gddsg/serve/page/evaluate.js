// How many photos of a folder are recognised, what is taken for what, and which photos to look at.

import { cancelJob, followJob, startEvaluation } from "./api.js";
import { button, find, icon, make, reveal, say, showProblem } from "./dom.js";
import { joined, tableOf } from "./evaluation.js";
import { acceptDrops, filesOfInput, inParts, sortedIntoClasses } from "./files.js";
import { pictureOf } from "./pictures.js";
import { limits, studio } from "./state.js";
import { counted, exactPercent, listed, percent, plural } from "./words.js";

const COLUMNS = 12;
const PHOTOS = 24;
const LONGEST = 100;  // letters of a file name that are sent

let running = null;

const progress = (done, all) => {
  const bar = find("check-bar");
  if (done) bar.value = done / all;
  else bar.removeAttribute("value");
  find("check-count").textContent = done ? `${done} of ${counted(all, "photo")}` : `Sending ${counted(all, "photo")} …`;
};

const figure = (value, name) => make("div", { class: "figure" }, make("span", { class: "figure-value" }, value), make("span", { class: "figure-name" }, name));

const figures = (result) => make("div", { class: "figures" },
  figure(exactPercent(result.accuracy), `of ${counted(result.photos, "photo")} right`),
  figure(exactPercent(result.average_accuracy), "on average over classes"),
  figure(String(result.mistaken), `${plural(result.mistaken, "photo")} taken for something else`));

const warnings = (result) => {
  const lines = [];
  if (result.learnt_photos) lines.push(`${counted(result.learnt_photos, "photo")} of these ${result.learnt_photos === 1 ? "was" : "were"} learnt before, so the figures flatter. Check with photos it has not seen.`);
  if (result.unlearnt.length) lines.push(`Not taught, so never right: ${listed(result.unlearnt, 6)}.`);
  if (result.skipped.length) lines.push(`Left out, as they cannot be read: ${listed(result.skipped.map(({ name }) => name), 4)}.`);
  return lines.map((line) => make("p", { class: "caution" }, icon("warning"), make("span", {}, line)));
};

const heat = (n, all) => (n === 0 ? "" : `heat-${Math.min(Math.ceil(4 * n / Math.max(all, 1)), 4)}`);

const confusionTable = (result) => {
  const { columns, rows, whole } = tableOf(result, COLUMNS);
  if (columns.length < 2) return null;
  const total = new Map(result.classes.map((one) => [one.label, one.photos]));
  const cell = (truth, name, n) => make("td", { class: `${truth === name ? "right" : "wrong"} ${heat(n, total.get(truth))}` }, n ? String(n) : make("span", { class: "nil" }, "·"));
  const body = rows.map(({ truth, cells }) => make("tr", {}, make("th", { scope: "row", title: truth }, make("span", {}, truth)), ...cells.map((n, i) => cell(truth, columns[i], n))));
  const head = make("tr", {}, make("td", { class: "corner" }, make("span", { "aria-hidden": "true" }, "is ↓  taken for →")), ...columns.map((name) => make("th", { scope: "col", title: name }, make("span", {}, name))));
  return make("div", {}, make("h3", {}, "What is taken for what"),
    make("p", { class: "note" }, `A row for what the photos show, a column for what they are taken for${whole ? "" : "; the classes that are mixed up most"}.`),
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Confusion table" },
      make("table", { class: "confusion" }, make("caption", { class: "unseen" }, "What is taken for what, in photos"), make("thead", {}, head), make("tbody", {}, ...body))));
};

const classTable = (result) => make("details", {}, make("summary", {}, "Class by class"), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Accuracy by class" }, make("table", {},
  make("caption", { class: "unseen" }, "Accuracy by class, the worst first"),
  make("thead", {}, make("tr", {}, ...["Class", "Photos", "Right", "Unknown", "Accuracy"].map((text) => make("th", { scope: "col" }, text)))),
  make("tbody", {}, ...result.classes.map((one) => make("tr", {}, make("th", { scope: "row" }, one.label), ...[one.photos, one.correct, one.rejected, exactPercent(one.accuracy)].map((value) => make("td", {}, String(value)))))))));

const wrongPhoto = (one, files) => {
  const file = files.get(one.name), short = file?.name ?? one.name.split("/").at(-1);
  return make("li", { class: "wrong-photo" }, file ? pictureOf(file, short) : null, make("div", {},
    make("p", {}, make("strong", {}, one.taken_for), ` ${percent(one.probability)}`), make("p", { class: "hint" }, `in the folder ${one.label}`), make("p", { class: "hint file" }, short)));
};

const wrongPhotos = (result, files) => {
  if (!result.wrong.length) return make("p", { class: "good" }, icon("check"), make("span", {}, "Every photo was recognised."));
  const list = make("ul", { class: "wrong-photos" }, ...result.wrong.slice(0, PHOTOS).map((one) => wrongPhoto(one, files)));
  const left = result.wrong.length - PHOTOS;
  const more = left > 0 ? button(`Show ${left} more`, () => {
    list.append(...result.wrong.slice(PHOTOS).map((one) => wrongPhoto(one, files)));
    more.remove();
  }) : null;
  return make("div", {}, make("h3", {}, "Photos to look at"), make("p", { class: "note" }, "Taken for something else, the surest first. Those at the top may be in the wrong folder."), list, more);
};

const showResult = (result, files) => {
  const heading = make("h3", { tabindex: -1, class: "result-head" }, "Result");
  find("check-result").replaceChildren(...[heading, figures(result), ...warnings(result), confusionTable(result), classTable(result), wrongPhotos(result, files)].filter(Boolean));
  heading.focus({ preventScroll: true });
  reveal(find("check-result"));
  say(`${exactPercent(result.accuracy)} of ${counted(result.photos, "photo")} right.`);
};

const check = async (parts, all, signal) => {
  const results = [];
  let before = 0;
  for (const part of parts) {
    const { job } = await startEvaluation(part, signal);
    running.job = job;
    results.push(await followJob(job, ({ done = 0 }) => progress(before + done, all), signal));
    before += part.length;
    progress(before, all);
  }
  return joined(results);
};

const setRunning = (value) => {
  running = value;
  find("check-progress").hidden = !value;
  find("check-choose").disabled = Boolean(value);
  find("check").setAttribute("aria-busy", String(Boolean(value)));
};

const start = async (found) => {
  if (running) return;
  const problem = find("check-problem");
  const classes = sortedIntoClasses(await found).filter(({ name }) => name);
  showProblem(problem, classes.length ? null : "There are no folders with photos among these files. Give one folder for each class, named like the class.");
  if (!classes.length) return;
  const photos = classes.flatMap(({ name, files }) => files.map((file, i) => ({ file, name: `${name}/${i} ${file.name.slice(-LONGEST)}` })));
  setRunning(new AbortController());
  find("check-result").replaceChildren();
  progress(0, photos.length);
  try {
    const result = await check(inParts(photos, limits(), ({ file }) => file), photos.length, running.signal);
    showResult(result, new Map(photos.map(({ file, name }) => [name, file])));
  } catch (error) {
    showProblem(problem, running.signal.aborted ? "Stopped." : error);
  }
  setRunning(null);
};

const halt = () => {
  if (!running) return;
  if (running.job) cancelJob(running.job).catch(() => {});
  running.abort();
  find("check-choose").disabled = false;
  find("check-choose").focus();
};

export const startEvaluate = () => {
  const files = find("check-files");
  find("check-choose").addEventListener("click", () => files.click());
  files.addEventListener("change", () => {
    const found = filesOfInput(files);
    files.value = "";
    if (found.length) start(found);
  });
  find("check-stop").addEventListener("click", halt);
  acceptDrops(find("check"), start);
  studio.addEventListener("changed", () => { find("check").hidden = studio.classes.length < 2; });
};
