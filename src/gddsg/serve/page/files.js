// Photos that people drop, choose or paste, sorted into classes: a folder a class.

import { byName } from "./words.js";

const PHOTO = /\.(jpe?g|jpe|jfif|mpo|png|webp|gif|bmp|tiff?|heic|heif|avif)$/i;

const isPhoto = (file) => file.type.startsWith("image/") || PHOTO.test(file.name);
const isHidden = (path) => path.split("/").some((part) => part.startsWith("."));

const filesOfEntry = async (entry, path) => {
  if (entry.isFile) {
    const file = await new Promise((done, failed) => entry.file(done, failed));
    return [{ file, path: path + entry.name }];
  }
  const reader = entry.createReader(), entries = [];
  for (;;) {  // a folder is handed out a hundred entries at a time
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) break;
    entries.push(...some);
  }
  const found = [];
  for (const one of entries) found.push(...await filesOfEntry(one, `${path}${entry.name}/`));
  return found;
};

// Files of a drop, with their paths below what was dropped. Entries have to be taken before the first await.
export const filesOfDrop = async (transfer) => {
  const items = Array.from(transfer.items).filter((item) => item.kind === "file");
  const taken = items.map((item) => ({ entry: item.webkitGetAsEntry?.(), file: item.getAsFile() }));
  const found = [];
  for (const { entry, file } of taken) {
    if (entry?.isDirectory) found.push(...await filesOfEntry(entry, ""));
    else if (file) found.push({ file, path: file.name });
  }
  return found;
};

export const filesOfInput = (input) =>
  Array.from(input.files, (file) => ({ file, path: file.webkitRelativePath || file.name }));

export const filesOfPaste = (transfer) => Array.from(transfer?.files ?? [], (file) => ({ file, path: file.name }));

export const photosAmong = (found) => found.filter(({ file, path }) => isPhoto(file) && !isHidden(path));

// photos/fox/1.jpg and fox/1.jpg are foxes; 1.jpg has no class yet, which is the empty name.
const classOf = (path) => {
  const folders = path.split("/").slice(0, -1);
  return folders[1] ?? folders[0] ?? "";
};

// [{name, files: [File]}], in the order of their names.
export const sortedIntoClasses = (found) => {
  const classes = new Map();
  for (const { file, path } of photosAmong(found)) {
    const name = classOf(path);
    if (!classes.has(name)) classes.set(name, []);
    classes.get(name).push(file);
  }
  return Array.from(classes, ([name, files]) => ({ name, files })).sort((a, b) => byName(a.name, b.name));
};

// Cut into parts that one request may carry.
export const inParts = (items, { files, bytes }, fileOf = (item) => item) => {
  const parts = [];
  let part = [], size = 0;
  for (const item of items) {
    const more = fileOf(item).size + 1000;  // with what multipart adds
    if (part.length && (part.length >= files || size + more > bytes)) {
      parts.push(part);
      [part, size] = [[], 0];
    }
    part.push(item);
    size += more;
  }
  if (part.length) parts.push(part);
  return parts;
};

export const draggingFiles = (event) => Array.from(event.dataTransfer?.types ?? []).includes("Files");

// Calls `take` with what is dropped on `zone`, which is marked while files are held over it.
export const acceptDrops = (zone, take) => {
  let depth = 0;
  const mark = (change) => {
    depth = change === 0 ? 0 : Math.max(depth + change, 0);
    zone.classList.toggle("over", depth > 0);
  };
  zone.addEventListener("dragenter", (event) => { if (draggingFiles(event)) { event.preventDefault(); mark(1); } });
  zone.addEventListener("dragleave", (event) => { if (draggingFiles(event)) mark(-1); });
  zone.addEventListener("dragover", (event) => {
    if (!draggingFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
  });
  zone.addEventListener("drop", (event) => {
    if (!draggingFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    mark(0);
    take(filesOfDrop(event.dataTransfer));
  });
};
