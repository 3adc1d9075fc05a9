// Small pictures: of files on this machine, and of thumbnails that the studio keeps.

import { blobOf, hasToken } from "./api.js";
import { make } from "./dom.js";

const SIDE = 192;
const AT_ONCE = 2;

let running = 0;
const waiting = [];

const next = () => {
  while (running < AT_ONCE && waiting.length) {
    running += 1;
    waiting.shift()().finally(() => { running -= 1; next(); });
  }
};

const paint = async (canvas, file) => {
  try {
    const whole = await createImageBitmap(file);
    const side = Math.min(whole.width, whole.height);
    const scale = Math.min(SIDE / side, 1);
    canvas.width = canvas.height = Math.max(Math.round(side * scale), 1);
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(whole, (whole.width - side) / 2, (whole.height - side) / 2, side, side, 0, 0, canvas.width, canvas.height);
    whole.close();
  } catch {
    canvas.classList.add("unreadable");  // some kinds only the studio can decode
  }
};

// A square picture of a file, painted when its turn comes: large photos take time and memory to decode.
export const pictureOf = (file, label = "") => {
  const canvas = make("canvas", { class: "picture", width: 1, height: 1 });
  if (label) {
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", label);
  } else canvas.setAttribute("aria-hidden", "true");
  waiting.push(() => paint(canvas, file));
  next();
  return canvas;
};

const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    blobOf(target.dataset.path).then((blob) => { target.src = URL.createObjectURL(blob); }).catch(() => {});
  }
}, { rootMargin: "200px" });

// A thumbnail that the studio keeps. Browsers cannot send a token for a picture: then it is fetched when it is seen.
export const thumbnail = (id) => {
  const path = `v1/thumbnails/${encodeURIComponent(id)}`;
  const image = make("img", { class: "picture", alt: "", width: 96, height: 96, decoding: "async", loading: "lazy" });
  image.addEventListener("load", () => { if (image.src.startsWith("blob:")) URL.revokeObjectURL(image.src); });
  let tries = 0;
  image.addEventListener("error", () => {
    tries += 1;
    if (tries > 3) image.classList.add("unreadable");
    else setTimeout(() => { image.src = path; }, 1000 * tries);  // many at once may be refused
  });
  if (hasToken()) {
    image.dataset.path = path;
    seen.observe(image);
  } else image.src = path;
  return image;
};
