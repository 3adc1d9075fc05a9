// How the page puts numbers and lists.

const UNEVEN = { class: "classes", copy: "copies", is: "are" };

export const plural = (n, one) => (n === 1 ? one : UNEVEN[one] ?? one + "s");

export const counted = (n, one) => `${n.toLocaleString("en")}\u00a0${plural(n, one)}`;

// Nothing short of certain is shown as 100 %, and nothing possible as 0 %.
export const percent = (share) => {
  if (!Number.isFinite(share)) return "–";
  if (share > 0 && share < 0.01) return "<\u202f1\u202f%";
  if (share < 1 && share > 0.99) return ">\u202f99\u202f%";
  return `${Math.round(share * 100)}\u202f%`;
};

export const exactPercent = (share) => (Number.isFinite(share) ? `${(share * 100).toFixed(1)}\u202f%` : "–");

export const listed = (names, most = 5) => {
  const shown = names.slice(0, most);
  if (names.length > most) return `${shown.join(", ")} and ${names.length - most} more`;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
};

export const bytes = (n) => {
  if (n < 1e3) return `${n}\u00a0bytes`;
  const [size, unit] = n < 1e6 ? [n / 1e3, "kB"] : n < 1e9 ? [n / 1e6, "MB"] : [n / 1e9, "GB"];
  return `${size < 10 ? size.toFixed(1) : Math.round(size)}\u00a0${unit}`;
};

const order = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

export const byName = (a, b) => order.compare(a, b) || (a < b ? -1 : a > b ? 1 : 0);
