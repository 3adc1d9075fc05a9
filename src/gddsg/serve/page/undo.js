// Notices at the rim of the page, and the minute in which a forgotten class comes back.

import { forget, undo } from "./api.js";
import { button, find, iconButton, make, say } from "./dom.js";
import { refresh } from "./state.js";

const KEPT = "gddsg-undo";

// A notice that stays until it is closed, or for `seconds`.
export const toast = (text, { seconds = 0, action = null, problem = false } = {}) => {
  const clock = make("span", { class: "clock", "aria-hidden": "true" });
  const note = make("div", { class: problem ? "toast problem" : "toast" }, make("span", { class: "toast-text" }, text), clock);
  const end = Date.now() + seconds * 1000;
  const close = () => {
    clearInterval(timer);
    const held = note.contains(document.activeElement);
    note.remove();
    if (held) find("classes-title").focus({ preventScroll: true });
  };
  const tick = () => {
    const left = Math.ceil((end - Date.now()) / 1000);
    if (left <= 0) close();
    else clock.textContent = `${left}\u202fs`;
  };
  if (action) note.append(action);
  note.append(iconButton("close", "Close this notice", close));
  let timer = 0;
  if (seconds) {
    tick();
    timer = setInterval(tick, 1000);
  }
  find("toasts").append(note);
  return { note, close };
};

const kept = () => {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? "[]").filter((one) => one.until > Date.now());
  } catch {
    return [];
  }
};

const keep = (all) => {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(all));
  } catch {
    // without storage the offer ends when the page is left
  }
};

const offer = ({ id, name, until }) => {
  const back = button("Undo", async () => {
    back.disabled = true;
    try {
      await undo(id);
      keep(kept().filter((one) => one.id !== id));
      notice.close();
      await refresh();
      say(`${name} is back.`);
    } catch (error) {
      back.disabled = false;
      if (error.status === 410 || error.status === 404) notice.close();
      toast(`${name} could not be brought back. ${error.message}`, { seconds: 15, problem: true });
      say(error.message);
    }
  }, { class: "main small" });
  const notice = toast(`Forgot ${name}.`, { seconds: Math.max((until - Date.now()) / 1000, 1), action: back });
  return back;
};

// Forget a class and offer it back; errors are the caller's to show.
export const forgetClass = async (name) => {
  const { undo: id, undo_seconds: seconds } = await forget(name);
  if (!id) {  // the answer came so late that the minute is over
    await refresh();
    toast(`Forgot ${name}.`, { seconds: 10 });
    return;
  }
  const offered = { id, name, until: Date.now() + seconds * 1000 };
  keep([...kept(), offered]);
  const back = offer(offered);
  await refresh();
  back.focus({ preventScroll: true });
  say(`Forgot ${name}. Undo is possible for ${seconds} seconds.`);
};

// A page that was loaded again still offers what is not over.
export const startUndo = () => kept().forEach(offer);
