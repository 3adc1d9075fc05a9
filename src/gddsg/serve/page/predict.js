// What a photo is taken for, and why. Answers follow the model: when it changes, they are asked for again.

import { StudioError, predict } from "./api.js";
import { closeCamera, openCamera, shoot } from "./camera.js";
import { button, find, icon, make, say, showProblem } from "./dom.js";
import { acceptDrops, filesOfInput, photosAmong } from "./files.js";
import { groupBadge, groupClass } from "./groups.js";
import { pictureOf } from "./pictures.js";
import { classNamed, studio } from "./state.js";
import { collect } from "./teach.js";
import { counted, listed, percent } from "./words.js";

const AT_ONCE = 8;
const MOST = 60;
const FOLLOWED = 12;
const LIVE_PAUSE = 250;
const SAID_EVERY = 4000;
const LONGEST = 100;  // letters of a file name that are sent

let answers = [];

const reject = () => (find("reject").value ? Number(find("reject").value) : null);

const groupOf = (label) => classNamed(label)?.group;

const bar = ({ label, probability }) => {
  const fill = make("span", { class: "bar-fill" });
  fill.style.width = `${Math.max(probability * 100, 0.5)}%`;
  const group = groupOf(label);
  return make("li", { class: group === undefined ? "" : groupClass(group) },
    make("span", { class: "bar-name" }, label), make("span", { class: "bar", "aria-hidden": "true" }, fill), make("span", { class: "bar-share" }, percent(probability)));
};

const bars = (top) => make("ol", { class: "bars", "aria-label": "Likeliest classes" }, ...top.map(bar));

const rivalLine = (rival, group) => {
  const kin = rival.similar ? "a look-alike" : "not a look-alike";
  const where = rival.group === group ? "same group" : `group ${rival.group}`;
  return make("li", {}, make("strong", {}, rival.label), ` ${percent(rival.probability)}: ${kin}, ${where}`);
};

const groupLine = (why) => {
  const others = (why.group_members ?? []).filter((name) => name !== why.label);
  const words = [`Group ${why.group}`];
  if (why.group_probability !== undefined) words.push(` is right with ${percent(why.group_probability)}`);
  words.push(others.length ? `; with it are ${listed(others, 4)}, which it is not mixed up with.` : "; no other class is in it.");
  return make("p", {}, groupBadge(why.group), " ", words.join(""));
};

const strangeLine = (one, why) => {
  if (one.unknown) return "It is called unknown because it is unlike every class that was taught.";
  if (why.unlike_every_class) return "It is rather unlike every class: fewer than 1 in 100 known photos are stranger.";
  return "It is as much like its class as most photos that were taught.";
};

const whyOf = (one) => {
  if (!one.why) return null;
  const why = { label: one.top[0]?.label, group: one.group, ...one.why };
  const rivals = (why.rivals ?? []).slice(0, 4);
  return make("details", { class: "why" }, make("summary", {}, "Why?"),
    make("p", {}, strangeLine(one, why)),
    ...(rivals.length ? [make("p", { class: "why-head" }, `Rather than ${one.unknown ? "these" : why.label} it could be`), make("ul", {}, ...rivals.map((rival) => rivalLine(rival, why.group)))] : []),
    why.group === undefined ? null : groupLine(why));
};

const headline = (one) => {
  const name = make("h3", { class: one.unknown ? "answer-name unknown" : "answer-name" });
  if (one.unknown) name.append(icon("unlike"), make("span", {}, "Unknown"));
  else name.append(make("span", {}, one.label), make("span", { class: "share" }, percent(one.probability)));
  return name;
};

const closest = (one) => (one.unknown && one.top[0] ? make("p", { class: "hint" }, `Closest: ${one.top[0].label}`) : null);

const teachings = (one, file) => {
  const learn = (name) => collect([{ name, files: [file] }]);
  return make("div", { class: "row tight teaches" },
    one.unknown ? null : button(`Right, learn it too`, () => learn(one.label), { class: "quiet small" }),
    button(one.unknown ? "Teach what it is" : "Wrong, teach it", () => learn(""), { class: "quiet small" }));
};

const showAnswer = (answer) => {
  const open = answer.body.querySelector("details")?.open ?? false;
  if (answer.problem) {
    const place = make("p", { class: "problem" });
    showProblem(place, answer.problem);
    answer.body.replaceChildren(make("h3", { class: "answer-name" }, answer.file.name), place);
    return;
  }
  const one = answer.found;
  answer.body.replaceChildren(...[headline(one), closest(one), bars(one.top), whyOf(one), teachings(one, answer.file)].filter(Boolean));
  if (open) answer.body.querySelector("details")?.setAttribute("open", "");
};

const newAnswer = (file) => {
  const answer = { file, body: make("div", { class: "answer-body" }, make("p", { class: "hint" }, "Looking …")) };
  answer.item = make("li", { class: "answer" }, pictureOf(file, file.name), answer.body);
  return answer;
};

const inWords = (one) => (one.unknown ? "unknown" : `${one.label}, ${percent(one.probability)}`);

// The service answers in order and lists what it could not read apart.
const settle = (part, { predictions, skipped = [] }) => {
  const left = [...predictions], unread = new Map(skipped.map((one) => [one.name, one.reason]));
  part.forEach((answer, i) => {
    const reason = unread.get(sentName(answer, i));
    answer.problem = reason ? new StudioError(0, "unreadable", `This photo could not be read: ${reason}`) : null;
    if (!reason) answer.found = left.shift();
    if (!reason && !answer.found) answer.problem = new StudioError(0, "missing", "The studio said nothing about this photo.");
    showAnswer(answer);
  });
};

// Photos may have the same name; the number in front tells them apart.
const sentName = (answer, i) => `${i} ${answer.file.name.slice(-LONGEST)}`;

const askFor = async (some) => {
  for (let start = 0; start < some.length; start += AT_ONCE) {
    const part = some.slice(start, start + AT_ONCE);
    settle(part, await predict(part.map((answer, i) => ({ file: answer.file, name: sentName(answer, i) })), { reject: reject(), why: true }));
  }
};

const tooMany = (n) => (n > MOST ? `The first ${MOST} of ${counted(n, "photo")} are shown. For more of them, use gddsg predict or gddsg sort.` : null);

const ask = async (found) => {
  const files = photosAmong(await found).map(({ file }) => file);
  showProblem(find("ask-problem"), files.length ? tooMany(files.length) : "There is no photo among these files.");
  if (!files.length) return;
  stopLive();
  const fresh = (answers = files.slice(0, MOST).map(newAnswer));
  find("answers").replaceChildren(...answers.map(({ item }) => item));
  find("answers-clear").hidden = false;
  find("ask").setAttribute("aria-busy", "true");
  try {
    await askFor(answers);
    const good = fresh.filter((one) => one.found);
    say(good.length === 1 ? `It is taken for ${inWords(good[0].found)}.` : `${counted(good.length, "answer")}. The first: ${good[0] ? inWords(good[0].found) : "none"}.`);
  } catch (error) {
    clear();
    showProblem(find("ask-problem"), error);
  } finally {
    find("ask").removeAttribute("aria-busy");
  }
};

export const askAbout = ask;

const clear = () => {
  answers = [];
  find("answers").replaceChildren();
  find("answers-clear").hidden = true;
  showProblem(find("ask-problem"), null);
};

// The same photos, asked again of the model as it is now.
const askAgain = () => {
  const some = answers.slice(0, FOLLOWED);
  if (some.length && studio.classes.length) askFor(some).catch(() => {});
};

let live = 0, saidAt = 0, saidWhat = "";

const showLive = (one) => {
  find("live-answer").replaceChildren(...[headline(one), closest(one), bars(one.top.slice(0, 3))].filter(Boolean));
  const name = one.unknown ? "unknown" : one.label;
  if (name === saidWhat || Date.now() - saidAt < SAID_EVERY) return;  // a flood of words would help nobody
  [saidAt, saidWhat] = [Date.now(), name];
  say(inWords(one));
};

const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

const keepLooking = async (mine) => {
  while (mine === live) {
    try {
      if (!document.hidden) {
        const file = await shoot(find("live-video"));
        const { predictions } = await predict([{ file }], { top: 3, reject: reject() });
        if (mine === live && predictions[0]) showLive(predictions[0]);
      }
      showProblem(find("ask-problem"), null);
    } catch (error) {
      showProblem(find("ask-problem"), error);
      await pause(1000);
    }
    await pause(LIVE_PAUSE);
  }
};

const startLive = async () => {
  clear();
  find("live").hidden = false;
  const mine = (live += 1);
  try {
    await openCamera(find("live-video"));
    if (mine !== live) return closeCamera(find("live-video"));
    find("live-stop").focus();
    keepLooking(mine);
  } catch (error) {
    stopLive();
    showProblem(find("ask-problem"), error);
  }
  return undefined;
};

const stopLive = () => {
  live += 1;
  saidWhat = "";
  closeCamera(find("live-video"));
  find("live").hidden = true;
  find("live-answer").replaceChildren();
};

const keepPicture = async () => {
  try {
    collect([{ name: "", files: [await shoot(find("live-video"))] }]);
  } catch (error) {
    showProblem(find("ask-problem"), error);
  }
};

const showWhether = () => {
  const n = studio.classes.length;
  find("ask-early").hidden = n > 0;
  find("ask-body").hidden = n === 0;
  find("ask-alone").hidden = n !== 1;
  if (!n) {
    stopLive();
    clear();
  }
};

export const startPredict = () => {
  const files = find("ask-files");
  files.addEventListener("change", () => {
    const found = filesOfInput(files);
    files.value = "";
    if (found.length) ask(found);
  });
  find("ask-choose").addEventListener("click", () => files.click());
  find("ask-camera").addEventListener("click", startLive);
  find("live-stop").addEventListener("click", () => { stopLive(); find("ask-camera").focus(); });
  find("live-keep").addEventListener("click", keepPicture);
  find("answers-clear").addEventListener("click", () => { clear(); find("ask-choose").focus(); });
  find("reject").addEventListener("change", askAgain);
  acceptDrops(find("ask"), (found) => { if (studio.classes.length) ask(found); });
  studio.addEventListener("changed", () => { showWhether(); askAgain(); });
};
