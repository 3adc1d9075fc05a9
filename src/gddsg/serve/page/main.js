// Starts the parts of the page and joins them.

import { StudioError, allowToken, connection } from "./api.js";
import { startAdvice } from "./advice.js";
import { startBoard } from "./board.js";
import { button, find, make, showProblem } from "./dom.js";
import { startEvaluate } from "./evaluate.js";
import { draggingFiles, filesOfPaste, photosAmong } from "./files.js";
import { startGraph } from "./graph.js";
import { askAbout, startPredict } from "./predict.js";
import { keepWatching, mayTeach, refresh, studio } from "./state.js";
import { startTake } from "./take.js";
import { collect, startTeach } from "./teach.js";
import { startToken } from "./token.js";
import { startUndo } from "./undo.js";
import { bytes, counted } from "./words.js";

const summary = ({ classes, photos, groups, keeps_photos: keeps }) => {
  const kept = keeps ? "thumbnails of photos are kept" : "statistics alone are kept, no photo";
  return classes ? `${counted(classes, "class")}, ${counted(photos, "photo")}, ${counted(groups.length, "group")}; ${kept}` : `A new model; ${kept}`;
};

const facts = (model) => [
  model.version ? `gddsg ${model.version}` : null,
  model.backbone ? `photos are seen by ${model.backbone}` : null,
  model.bytes ? `model file of ${bytes(model.bytes)}` : null,
  "nothing on this page comes from elsewhere",
].filter(Boolean).join(" · ");

const showModel = () => {
  const { model } = studio;
  document.body.classList.remove("loading");
  document.body.classList.toggle("new", !studio.classes.length);
  document.body.classList.toggle("looks-only", !mayTeach());
  find("read-only").hidden = mayTeach();
  find("file").replaceChildren(...(model.file ? [make("span", { class: "file" }, model.file)] : []));
  find("summary").textContent = summary(model);
  find("foot").replaceChildren(make("p", {}, facts(model)));
  document.title = model.file ? `${model.file} – Studio` : "Studio";
  for (const link of document.querySelectorAll("nav a")) {
    link.parentElement.hidden = Boolean(document.querySelector(link.getAttribute("href"))?.hidden);
  }
  showProblem(find("trouble"), null);
};

const showConnection = () => {
  const strip = find("connection");
  connection.addEventListener("lost", () => {
    strip.textContent = "The studio does not answer. Waiting for it to come back …";
    strip.hidden = false;
  });
  connection.addEventListener("back", () => { strip.hidden = true; });
};

// What was touched last says whether a pasted photo is to be asked about or taught.
let touched = "teach";

const watchTouches = () => {
  const note = ({ target }) => { if (target instanceof Element) touched = target.closest("#ask") ? "ask" : "teach"; };
  document.addEventListener("pointerdown", note);
  document.addEventListener("focusin", note);
};

const onPaste = (event) => {
  if (document.querySelector("dialog[open]")) return;
  const found = photosAmong(filesOfPaste(event.clipboardData));
  if (!found.length) return;
  event.preventDefault();
  if ((touched === "ask" || !mayTeach()) && studio.classes.length) askAbout(found);
  else if (mayTeach()) collect([{ name: "", files: found.map(({ file }) => file) }]);
};

// A photo dropped beside its place would make the browser leave the page.
const keepPage = () => {
  let depth = 0;
  const mark = (on) => document.body.classList.toggle("dragging", on);
  document.addEventListener("dragenter", (event) => { if (draggingFiles(event)) { depth += 1; mark(true); } });
  document.addEventListener("dragleave", (event) => { if (draggingFiles(event)) { depth -= 1; mark(depth > 0); } });
  document.addEventListener("dragover", (event) => { if (draggingFiles(event)) event.preventDefault(); });
  document.addEventListener("drop", (event) => { if (draggingFiles(event)) event.preventDefault(); });
  document.addEventListener("drop", () => { depth = 0; mark(false); }, true);
};

const open = async () => {
  try {
    await refresh();
  } catch (error) {
    if (!(error instanceof StudioError)) throw error;
    if (studio.model) return;
    document.body.classList.remove("loading");
    find("summary").textContent = "Not open";
    showProblem(find("trouble"), error);
    if (error.status === 401) find("trouble").append(button("Enter a token", () => { allowToken(); open(); }));
  }
};

startToken();
showConnection();
for (const start of [startTeach, startBoard, startPredict, startAdvice, startGraph, startEvaluate, startTake]) start();
studio.addEventListener("changed", showModel);
watchTouches();
document.addEventListener("paste", onPaste);
keepPage();
await open();
startUndo();
keepWatching();
