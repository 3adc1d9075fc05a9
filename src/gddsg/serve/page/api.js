// The one place that speaks HTTP: token, retries, errors in plain words.

const TRIES = 5;
const LONGEST_WAIT = 20;
const TOKEN = "gddsg-token";

export class StudioError extends Error {
  constructor(status, code, message, hint = "") {
    super(message);
    Object.assign(this, { status, code, hint });
  }
}

// Tells "lost" when the studio stops answering and "back" when it answers again.
export const connection = new EventTarget();
let lost = false;

const noteConnection = (isLost) => {
  if (isLost === lost) return;
  lost = isLost;
  connection.dispatchEvent(new Event(lost ? "lost" : "back"));
};

const readToken = () => {
  try {
    return sessionStorage.getItem(TOKEN) ?? "";
  } catch {
    return "";  // storage may be switched off; the token then lasts until the page is left
  }
};
let token = readToken();

export const hasToken = () => token !== "";

export const setToken = (value) => {
  token = value;
  try {
    if (value) sessionStorage.setItem(TOKEN, value);
    else sessionStorage.removeItem(TOKEN);
  } catch {
    // as above
  }
};

let askForToken = async () => false;
let asking = null, declined = false;

// `ask` shows the dialogue and promises true once there is a token to try.
export const onTokenNeeded = (ask) => { askForToken = ask; };

// Who has said "not now" is left alone until they say that they have one.
export const allowToken = () => { declined = false; };

const newToken = (wasWrong) => {
  if (declined) return Promise.resolve(false);
  asking ??= askForToken(wasWrong).then((given) => {
    declined = !given;
    return given;
  }).finally(() => { asking = null; });
  return asking;
};

// crypto.randomUUID is missing where a page comes over plain HTTP from another machine.
export const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");

const pause = (seconds, signal) => new Promise((done, failed) => {
  const timer = setTimeout(done, seconds * 1000);
  signal?.addEventListener("abort", () => { clearTimeout(timer); failed(signal.reason); }, { once: true });
});

const WORDS = {
  403: "This token does not allow that.",
  404: "That is not there any more.",
  410: "It is too late for that.",
  413: "That is too much at once.",
  429: "The studio is asked too often just now.",
  503: "The studio is busy just now.",
};

const errorOf = async (answer) => {
  let about = {};
  try {
    about = (await answer.json()).error ?? {};
  } catch {
    // a proxy in between may answer with a page of its own
  }
  const message = about.message || WORDS[answer.status] || `The studio answered with the error ${answer.status}.`;
  return new StudioError(answer.status, about.code ?? "error", message, about.hint ?? "");
};

const SILENT = () => new StudioError(0, "silent", "The studio does not answer.", "Is it still running? Start it again and try once more.");

const send = async (path, options) => {
  const headers = { Accept: "application/json", ...options.headers };
  const sent = token;
  if (sent) headers.Authorization = `Bearer ${sent}`;
  let answer;
  try {
    answer = await fetch(path, { method: options.method ?? "GET", body: options.body, headers, signal: options.signal, cache: "no-store" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    noteConnection(true);
    throw SILENT();
  }
  noteConnection(false);
  return { answer, sent };
};

// Whether a request that went wrong may be sent again, and after how many seconds; null means no.
const waitBefore = (error, answer, options, tried) => {
  if (tried >= TRIES - 1) return null;
  if (error) return options.safe ? Math.min(0.5 * 2 ** tried, 4) : null;
  if (answer.status !== 429 && answer.status !== 503) return null;
  const asked = Number(answer.headers.get("Retry-After"));
  return Math.min(Number.isFinite(asked) && asked > 0 ? asked : 2 ** tried, LONGEST_WAIT);
};

// The answer of the studio, or a StudioError. `safe` requests may be repeated when the connection breaks: those that
// change something carry an Idempotency-Key, which stays the same from one try to the next.
export const request = async (path, options = {}) => {
  for (let tried = 0; ; tried += 1) {
    let error = null, answer = null, sent = "";
    try {
      ({ answer, sent } = await send(path, options));
    } catch (reason) {
      if (!(reason instanceof StudioError)) throw reason;
      error = reason;
    }
    if (answer?.ok) return answer;
    if (answer?.status === 401) {
      if (token !== sent || await newToken(sent !== "")) continue;
      throw new StudioError(401, "token", "This studio asks for a token.", "Whoever runs it makes one by gddsg token add.");
    }
    const seconds = waitBefore(error, answer, options, tried);
    if (seconds === null) throw error ?? await errorOf(answer);
    await pause(seconds, options.signal);
  }
};

const json = async (path, options) => (await request(path, options)).json();

const classPath = (name) => `v1/classes/${encodeURIComponent(name)}`;

const change = (path, method, options = {}) =>
  json(path, { ...options, method, safe: true, headers: { "Idempotency-Key": newKey(), ...options.headers } });

const formOf = (files) => {
  const form = new FormData();
  for (const { file, name } of files) form.append("files", file, name ?? file.name);
  return form;
};

export const getModel = () => json("v1/model", {});
export const getClasses = () => json("v1/classes", {});
export const getAdvice = () => json("v1/advice", {});
export const teach = (name, files, signal) => change(`${classPath(name)}/images`, "POST", { body: formOf(files), signal });
export const forget = (name) => change(classPath(name), "DELETE");
export const undo = (id) => change(`v1/undo/${encodeURIComponent(id)}`, "POST");
export const rename = (name, other) =>
  change(classPath(name), "PATCH", { body: JSON.stringify({ name: other }), headers: { "Content-Type": "application/json" } });

export const predict = (files, { top = 5, reject = null, why = false, signal } = {}) => {
  const query = new URLSearchParams({ top, why });
  if (reject !== null) query.set("reject", reject);
  return json(`v1/predict?${query}`, { method: "POST", body: formOf(files), signal, safe: true });
};

export const startEvaluation = (files, signal) => json("v1/evaluate", { method: "POST", body: formOf(files), signal });
export const cancelJob = (id) => json(`v1/jobs/${encodeURIComponent(id)}`, { method: "DELETE", safe: true });

const eventsOf = async function* (answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value.replaceAll("\r\n", "\n");
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").filter((line) => line.includes(": ")).map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
      if (fields.event) yield { event: fields.event, data: fields.data ? JSON.parse(fields.data) : {} };
    }
  }
};

const ENDED = new Set(["done", "failed", "cancelled"]);

const outcome = (job) => {
  if (job.state === "done") return job.result;
  if (job.state === "cancelled") throw new StudioError(0, "cancelled", "Stopped.");
  const about = job.error ?? {};
  throw new StudioError(0, about.code ?? "failed", about.message ?? "The studio could not finish this.", about.hint ?? "");
};

// Result of a long job; `progress` is called with {done, total}. Events are read by fetch, as an EventSource could not
// send the token. Where the stream breaks, the state of the job is asked for.
export const followJob = async (id, progress, signal) => {
  const path = `v1/jobs/${encodeURIComponent(id)}`;
  for (;;) {
    try {
      const answer = await request(`${path}/events`, { headers: { Accept: "text/event-stream" }, signal, safe: true });
      for await (const { event, data } of eventsOf(answer)) {
        if (event === "progress") progress(data);
        if (ENDED.has(event)) break;
      }
    } catch (error) {
      if (signal?.aborted || error instanceof StudioError) throw error;
    }
    const job = await json(path, { signal, safe: true });
    if (ENDED.has(job.state)) return outcome(job);
    progress(job);
    await pause(1, signal);
  }
};

// With a token the browser cannot fetch a picture or a download by itself: the bytes come through here.
export const blobOf = async (path) => (await request(path, { headers: { Accept: "*/*" }, safe: true })).blob();
