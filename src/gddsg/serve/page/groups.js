// Groups are colours of the similarity graph; colour never stands alone, the number is always beside it.

import { make } from "./dom.js";

const COLOURS = 12;

// Colours repeat after twelve groups, with a dashed rim.
export const groupClass = (group) => `g${group % COLOURS}` + (group >= COLOURS ? " again" : "");

export const groupBadge = (group) => make("span", { class: `badge ${groupClass(group)}` }, `group\u00a0${group}`);
