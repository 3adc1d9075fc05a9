// What the page knows of the studio. Parts of the page listen for "changed".

import { connection, getAdvice, getClasses, getModel } from "./api.js";

const EVERY = 4000;
const TRIES = 3;

export const studio = Object.assign(new EventTarget(), { model: null, classes: [], advice: [] });

export const mayTeach = () => studio.model?.rights !== "read";

export const classNamed = (name) => studio.classes.find((one) => one.name === name);

// Files and bytes of one request: few enough to show progress, and no more than the studio takes.
export const limits = () => ({
  files: Math.min(32, studio.model?.limits.files ?? 32),
  bytes: Math.min(32e6, studio.model?.limits.bytes ?? 32e6),
});

const read = async (model) => {
  const [{ classes, revision }, { advice }] = await Promise.all([getClasses(), getAdvice()]);
  return { model, classes, advice, sameRevision: revision === model.revision };
};

const load = async () => {
  for (let tried = 1; ; tried += 1) {
    const model = await getModel();
    if (model.revision === studio.model?.revision && model.rights === studio.model?.rights) return;
    const { sameRevision, ...found } = await read(model);
    if (!sameRevision && tried < TRIES) continue;  // somebody taught between the questions
    Object.assign(studio, found);
    studio.dispatchEvent(new Event("changed"));
    return;
  }
};

let loading = null, again = false;

// Ask for news. Calls while one is under way share a second one, which starts after whatever they wait for was done.
export const refresh = () => {
  if (loading) {
    again = true;
    return loading;
  }
  loading = (async () => {
    try {
      do {
        again = false;
        await load();
      } while (again);
    } finally {
      loading = null;
    }
  })();
  return loading;
};

// Others may teach the same model, by the command line or from another page.
export const keepWatching = () => {
  const look = () => { if (!document.hidden) refresh().catch(() => {}); };
  setInterval(look, EVERY);
  document.addEventListener("visibilitychange", look);
  connection.addEventListener("back", look);
};
