// Photos wait in a tray until they have a name; then they are taught, class after class.

import { StudioError, teach } from "./api.js";
import { startCamera } from "./camera.js";
import { find, icon, iconButton, make, newId, reveal, say, showProblem } from "./dom.js";
import { acceptDrops, filesOfInput, inParts, sortedIntoClasses } from "./files.js";
import { pictureOf } from "./pictures.js";
import { classNamed, limits, mayTeach, refresh, studio } from "./state.js";
import { counted, listed } from "./words.js";

const SHOWN = 12;
const REMEMBERED = 6;
const NOTHING = "There is no photo among these files. Photos are JPEG, PNG, WebP and the like; folders may hold more folders.";

let batches = [];
let working = null;

const photosIn = (some) => some.reduce((sum, { files }) => sum + files.length, 0);

const label = () => {
  const photos = photosIn(batches), classes = batches.length;
  const what = classes > 1 ? `${counted(photos, "photo")} of ${counted(classes, "class")}` : counted(photos, "photo");
  find("teach-now").textContent = `Teach ${what}`;
  find("tray").hidden = !batches.length;
};

const drop = (batch) => {
  batches = batches.filter((one) => one !== batch);
  batch.item.remove();
  label();
};

const shotOf = (batch, file) => {
  const item = make("li", { class: "shot" }, pictureOf(file));
  item.append(iconButton("close", `Leave out ${file.name}`, () => {
    batch.files = batch.files.filter((one) => one !== file);
    showShots(batch);
    if (!batch.files.length) drop(batch);
    label();
    (batch.files.length ? batch.input : find("teach-choose")).focus();
  }, { class: "remove" }));
  item.photo = file;
  return item;
};

const showShots = (batch) => {
  const there = new Map(Array.from(batch.shots.children, (item) => [item.photo, item]));
  const more = batch.files.length - SHOWN;
  const items = batch.files.slice(0, SHOWN).map((file) => there.get(file) ?? shotOf(batch, file));
  if (more > 0) items.push(make("li", { class: "shot more" }, `+${more}`));
  batch.shots.replaceChildren(...items);
  batch.count.textContent = counted(batch.files.length, "photo");
};

const note = (batch) => {
  const there = classNamed(batch.input.value.trim());
  batch.hint.textContent = there ? `Adds to the ${counted(there.photos, "photo")} of this class.` : "";
};

const render = (batch) => {
  const id = newId("batch"), problem = newId("batch-problem");
  batch.input = make("input", {
    id, type: "text", list: "class-names", maxlength: 200, autocomplete: "off", spellcheck: "false", value: batch.name,
    placeholder: "What is on these photos?", "aria-describedby": problem, oninput: () => { note(batch); showProblem(batch.problem, null); },
  });
  batch.problem = make("p", { id: problem, class: "problem", role: "alert", hidden: true });
  batch.shots = make("ul", { class: "shots", "aria-label": "Photos" });
  batch.count = make("span", { class: "hint" });
  batch.hint = make("span", { class: "hint" });
  const remove = iconButton("close", "Take these photos out", () => { drop(batch); find("teach-choose").focus(); });
  batch.item = make("li", { class: "batch" },
    make("div", { class: "batch-head" }, make("label", { for: id }, "Class"), batch.count, remove),
    batch.input, batch.hint, batch.problem, batch.shots);
  showShots(batch);
  note(batch);
  return batch.item;
};

const add = ({ name, files }) => {
  const same = batches.find((one) => one.input.value.trim() === name);
  if (same) {
    same.files.push(...files);
    showShots(same);
    return same;
  }
  const batch = { name, files: [...files] };
  batches.push(batch);
  find("batches").append(render(batch));
  return batch;
};

// Put photos into the tray and lead to the first name that is missing.
export const collect = (classes) => {
  if (working) {
    showProblem(find("teach-problem"), "Wait until the photos before these are taught, then give the next ones.");
    return;
  }
  const added = classes.map(add);
  label();
  showProblem(find("teach-problem"), added.length ? null : NOTHING);
  if (!added.length) return;
  const photos = photosIn(classes);
  say(`${counted(photos, "photo")} ready. ${classes.some(({ name }) => !name) ? "Say what is on them." : "Press Teach."}`);
  const target = added.find((one) => !one.input.value.trim());
  reveal((target ?? added[0]).item);
  (target?.input ?? find("teach-now")).focus({ preventScroll: true });
};

const collectFound = async (found) => {
  try {
    collect(sortedIntoClasses(await found));
  } catch (error) {
    showProblem(find("teach-problem"), `These files could not be read (${error.message}). Try to choose them instead.`);
  }
};

const merged = (parts) => ({
  ...parts.at(-1),
  learnt: parts.reduce((sum, one) => sum + one.learnt, 0),
  known: parts.reduce((sum, one) => sum + one.known, 0),
  skipped: parts.flatMap((one) => one.skipped ?? []),
  unlike: parts.flatMap((one) => one.unlike ?? []),
  created: parts.some((one) => one.created),
});

// Teach photos of one class in as many requests as the studio wants; `each` hears of photos that are done.
const teachAll = async (name, files, each, signal) => {
  const answers = [];
  for (const part of inParts(files, limits())) {
    answers.push(await teach(name, part.map((file) => ({ file })), signal));
    each(part);
  }
  return merged(answers);
};

const told = (result) => {
  const facts = [];
  if (result.learnt || !result.known) facts.push(`${counted(result.learnt, "photo")} learnt`);
  if (result.known) facts.push(`${counted(result.known, "photo")} known already`);
  if (result.skipped.length) facts.push(`${counted(result.skipped.length, "file")} left out`);
  return facts.join(", ");
};

const listOf = (heading, lines) =>
  lines.length ? make("details", {}, make("summary", {}, heading), make("ul", {}, ...lines.map((line) => make("li", {}, line)))) : null;

const showTaught = (result) => {
  const unlike = result.unlike.map(({ name }) => name);
  const item = make("li", {}, icon("check"), make("div", {},
    make("p", {}, make("strong", {}, result.class), ` ${told(result)}.`),
    listOf(`Left out: ${counted(result.skipped.length, "file")}`, result.skipped.map(({ name, reason }) => `${name}: ${reason}`)),
    unlike.length ? make("p", { class: "hint" }, `${listed(unlike, 3)} ${unlike.length === 1 ? "looks" : "look"} unlike ${result.class}. Right folder?`) : null));
  item.append(iconButton("close", "Close this notice", () => { item.remove(); find("teach-choose").focus(); }));
  const list = find("taught");
  list.prepend(item);
  while (list.children.length > REMEMBERED) list.lastElementChild.remove();
};

const setWorking = (value) => {
  working = value;
  find("tray").classList.toggle("working", Boolean(value));
  find("teach-now").disabled = find("tray-clear").disabled = Boolean(value);
  find("teach-stop").hidden = find("teach-progress").hidden = !value;
  find("teach").setAttribute("aria-busy", String(Boolean(value)));
  for (const one of batches) one.input.readOnly = Boolean(value);
};

const progress = (done, all) => {
  const bar = find("teach-bar");
  if (done) bar.value = done / all;
  else bar.removeAttribute("value");
  find("teach-count").textContent = done ? `${done} of ${counted(all, "photo")}` : `Looking at ${counted(all, "photo")} …`;
};

const missingName = () => {
  const nameless = batches.find((one) => !one.input.value.trim());
  if (!nameless) return false;
  showProblem(nameless.problem, "Say what is on these photos: the class needs a name.");
  nameless.input.focus();
  return true;
};

const teachBatch = async (batch, each) => {
  const name = batch.input.value.trim();
  showProblem(batch.problem, null);
  const result = await teachAll(name, [...batch.files], (part) => {
    batch.files = batch.files.filter((file) => !part.includes(file));  // what is taught need not be sent again
    each(part.length);
  }, working.signal);
  drop(batch);
  showTaught(result);
  refresh().catch(() => {});
  return `${result.class}: ${told(result)}.`;
};

const failed = (batch, error) => {
  if (!batch.item.isConnected) return;
  if (!batch.files.length) drop(batch);
  else showShots(batch);
  if (!(error instanceof StudioError)) error = new StudioError(0, "stopped", "Stopped before all were taught.");
  showProblem(batch.problem, error);
};

const teachTray = async () => {
  if (working || missingName()) return;
  const all = photosIn(batches), news = [];
  let done = 0;
  setWorking(new AbortController());
  progress(0, all);
  for (const batch of [...batches]) {
    if (working.signal.aborted) break;
    try {
      news.push(await teachBatch(batch, (n) => progress(done += n, all)));
    } catch (error) {
      failed(batch, error);
      if (error.status === 0 || error.status === 401) break;  // the others would fare no better
    }
  }
  setWorking(null);
  label();
  await refresh().catch(() => {});
  say(news.join(" "));
  (batches[0]?.input ?? find("teach-choose")).focus({ preventScroll: true });
};

// Photos given to a class that is there: nothing is left to be asked.
export const teachMore = async (name, found) => {
  const files = sortedIntoClasses(found).flatMap((one) => one.files);
  collect(files.length ? [{ name, files }] : []);
  if (files.length && !working) await teachTray();
};

const listNames = () => find("class-names").replaceChildren(...studio.classes.map(({ name }) => make("option", { value: name })));

export const startTeach = () => {
  const files = find("teach-files"), folders = find("teach-folders");
  const openCamera = startCamera((taken) => collect([{ name: "", files: taken }]));
  for (const input of [files, folders]) {
    input.addEventListener("change", () => {
      const found = filesOfInput(input);
      input.value = "";
      if (found.length) collectFound(found);
    });
  }
  find("teach-choose").addEventListener("click", () => files.click());
  find("teach-folder").addEventListener("click", () => folders.click());
  find("teach-camera").addEventListener("click", openCamera);
  find("tray-clear").addEventListener("click", () => { [...batches].forEach(drop); find("teach-choose").focus(); });
  find("teach-stop").addEventListener("click", () => working?.abort());
  find("tray").addEventListener("submit", (event) => { event.preventDefault(); teachTray(); });
  acceptDrops(find("teach"), (found) => { if (mayTeach()) collectFound(found); });
  studio.addEventListener("changed", () => {
    listNames();
    find("welcome").hidden = studio.classes.length > 0;
    find("teach-title").textContent = studio.classes.length ? "Teach" : "Teach your first class";
    batches.forEach(note);
  });
};
