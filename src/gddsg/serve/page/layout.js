// Places for the classes of the similarity graph: look-alikes near each other, no box over another. The same classes,
// lines and former places always give the same picture; nothing is left to chance.

const hash = (text) => {
  let h = 2166136261;
  for (let i = 0; i < text.length; i += 1) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  h = Math.imul(h ^ (h >>> 15), 2246822507);
  return ((h ^ (h >>> 13)) >>> 0) / 2 ** 32;
};

const REACH = 2.5;

// Where each class starts: where it was, else beside look-alikes that have a place, else on a disc by its name.
const startingPlaces = (nodes, neighbours, before, radius) => {
  const places = nodes.map(({ name }) => before.get(name) ?? null);
  const given = places.map(Boolean);
  return nodes.map(({ name }, i) => {
    if (given[i]) return { ...places[i] };
    const turn = 2 * Math.PI * hash(name), near = neighbours[i].filter((k) => given[k]);
    if (!near.length) {
      const away = radius * Math.sqrt(hash(name + "r"));
      return { x: away * Math.cos(turn), y: away * Math.sin(turn) };
    }
    const mean = (key) => near.reduce((sum, k) => sum + places[k][key], 0) / near.length;
    return { x: mean("x") + 30 * Math.cos(turn), y: mean("y") + 30 * Math.sin(turn) };
  });
};

// Pairs nearer than `reach`, by a grid, so that a thousand classes take milliseconds.
const forNearPairs = (places, reach, visit) => {
  const cells = new Map(), keyOf = (x, y) => x * 100003 + y;
  const cellOf = ({ x, y }) => [Math.floor(x / reach), Math.floor(y / reach)];
  places.forEach((place, i) => {
    const key = keyOf(...cellOf(place));
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(i);
  });
  places.forEach((place, i) => {
    const [cx, cy] = cellOf(place);
    for (let dx = -1; dx <= 1; dx += 1) {
      for (let dy = -1; dy <= 1; dy += 1) {
        for (const k of cells.get(keyOf(cx + dx, cy + dy)) ?? []) if (k > i) visit(i, k);
      }
    }
  });
};

const pushApart = (places, forces, gap) => forNearPairs(places, REACH * gap, (i, k) => {
  const dx = places[i].x - places[k].x, dy = places[i].y - places[k].y;
  const square = Math.max(dx * dx + dy * dy, 1), distance = Math.sqrt(square);
  if (distance > REACH * gap) return;
  const push = gap * gap / square * (1 - distance / (REACH * gap));
  forces[i].x += dx * push;
  forces[i].y += dy * push;
  forces[k].x -= dx * push;
  forces[k].y -= dy * push;
});

const pullTogether = (places, forces, links, gap) => {
  for (const { i, k, pull } of links) {
    const dx = places[k].x - places[i].x, dy = places[k].y - places[i].y;
    const distance = Math.max(Math.hypot(dx, dy), 1), strength = pull * (distance - gap) / distance;
    forces[i].x += dx * strength;
    forces[i].y += dy * strength;
    forces[k].x -= dx * strength;
    forces[k].y -= dy * strength;
  }
};

const settle = (places, links, gap, aspect, rounds) => {
  const gravity = 0.03;
  for (let round = 0; round < rounds; round += 1) {
    const heat = gap * 0.5 * (1 - round / rounds) + 0.5;
    const forces = places.map(({ x, y }) => ({ x: -x * gravity / aspect, y: -y * gravity * aspect }));
    pushApart(places, forces, gap);
    pullTogether(places, forces, links, gap);
    places.forEach((place, i) => {
      const size = Math.hypot(forces[i].x, forces[i].y), step = Math.min(size, heat) / Math.max(size, 1e-9);
      place.x += forces[i].x * step;
      place.y += forces[i].y * step;
    });
  }
};

// Boxes are wide: forces work in a space in which they are about as wide as high.
const squeezed = (places, by) => places.map(({ x, y }) => ({ x: x / by, y }));

// Drawn in to the room that there is, or out to it; a few boxes are not torn apart.
const fitted = (places, [width, height]) => {
  const most = places.length > 6 ? 2 : 1.2;
  const spread = (key) => Math.max(...places.map((place) => place[key])) - Math.min(...places.map((place) => place[key]));
  const [across, down] = [Math.min(width / Math.max(spread("x"), 1), most), Math.min(height / Math.max(spread("y"), 1), most)];
  return places.map(({ x, y }) => ({ x: x * across, y: y * down }));
};

// Boxes that cover each other are pushed apart along the axis in which it takes less.
const makeRoom = (places, nodes, rounds) => {
  const widest = 2 * Math.max(...nodes.map(({ w }) => w), 20) + 12;
  for (let round = 0; round < rounds; round += 1) {
    let clashes = 0;
    forNearPairs(places, widest, (i, k) => {
      const dx = places[i].x - places[k].x, dy = places[i].y - places[k].y;
      const overX = nodes[i].w + nodes[k].w + 10 - Math.abs(dx), overY = nodes[i].h + nodes[k].h + 10 - Math.abs(dy);
      if (overX <= 0.01 || overY <= 0.01) return;
      clashes += 1;
      const along = overX < overY ? "x" : "y", over = Math.min(overX, overY) / 2 + 0.1;
      const side = (along === "x" ? dx : dy) >= 0 ? 1 : -1;
      places[i][along] += side * over;
      places[k][along] -= side * over;
    });
    if (!clashes) return;
  }
};

// nodes: [{name, w, h}] with half widths and heights; pairs: [[i, k, distance]]; before: Map of name to {x, y}.
// room: width and height of what the picture should fill. Gives [{x, y}] about the middle.
export const layOut = (nodes, pairs, before, [width, height]) => {
  const n = nodes.length, neighbours = nodes.map(() => []);
  if (n === 1) return [{ x: 0, y: 0 }];
  for (const [i, k] of pairs) {
    neighbours[i].push(k);
    neighbours[k].push(i);
  }
  const links = pairs.map(([i, k]) => ({ i, k, pull: 0.35 / Math.sqrt(Math.min(neighbours[i].length, neighbours[k].length)) }));
  const [w, h] = ["w", "h"].map((key) => nodes.reduce((sum, node) => sum + node[key], 0) / n);
  const wide = Math.min(Math.max(0.55 * w / h, 1), 3), gap = 2 * h + 28;
  let places = startingPlaces(nodes, neighbours, before, 0.6 * gap * Math.sqrt(n));
  places = squeezed(places, wide);
  settle(places, links, gap, Math.sqrt(Math.min(Math.max(width / wide / height, 0.3), 3)), n > 300 ? 120 : 260);
  places = fitted(squeezed(places, 1 / wide), [Math.max(width - 2 * w - 48, 100), Math.max(height - 2 * h - 48, 100)]);
  makeRoom(places, nodes, 200);
  return places;
};
