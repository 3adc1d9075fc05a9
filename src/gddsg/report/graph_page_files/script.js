"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const classes = JSON.parse(find("classes").textContent);
  const graph = find("graph"), frame = find("frame"), panel = find("panel"), rays = find("rays");
  const search = find("search"), found = find("found");
  const nodes = Array.from(graph.querySelectorAll(".node"));
  const rows = Array.from(document.querySelectorAll("tbody tr"));
  const welcome = panel.textContent;
  const natural = graph.viewBox.baseVal.width, high = graph.viewBox.baseVal.height;
  let pinned = -1, width = natural;

  const element = (tag, text) => {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
  };
  const plural = (n, one, many) => n + " " + (n === 1 ? one : many);
  const link = (i) => {
    const button = element("button", classes[i].name);
    button.type = "button";
    button.addEventListener("click", () => { pin(i); reveal(i); });
    return button;
  };
  const list = (heading, items) => {
    const made = document.createElement("ul");
    for (const [i, note] of items) {
      const item = document.createElement("li");
      item.append(link(i), element("span", note));
      made.append(item);
    }
    panel.append(element("strong", heading), made);
  };

  const describe = (i) => {
    const about = classes[i];
    const kin = classes.map((other, k) => k).filter((k) => k !== i && classes[k].group === about.group);
    const facts = ["group " + about.group + " with " + plural(kin.length + 1, "class", "classes")];
    if (about.count !== null) facts.push(plural(about.count, "sample", "samples"));
    const marked = about.alike.length < about.alikeCount ? " (the closest " + about.alike.length + " are marked)" : "";
    facts.push(plural(about.alikeCount, "look-alike", "look-alikes") + marked);
    panel.replaceChildren(element("h2", about.name), element("p", facts.join(", ")));
    const note = (similar) => similar ? "" : " (not similar)";
    if (about.near.length) list("Closest rivals", about.near.map(([k, d, similar]) => [k, d + note(similar)]));
    if (kin.length) list("Same group", kin.map((k) => [k, ""]));
  };

  const ray = (i, k) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    line.setAttribute("class", "ray");
    line.setAttribute("x1", nodes[i].dataset.x);
    line.setAttribute("y1", nodes[i].dataset.y);
    line.setAttribute("x2", nodes[k].dataset.x);
    line.setAttribute("y2", nodes[k].dataset.y);
    return line;
  };

  // Seen from afar, boxes grow until their names can be read; those that have no room for it are small and nameless.
  const letter = 13, readable = 10, most = 3000;  // of more boxes, room for all would take too long to find
  const boxes = nodes.map((node) => {
    const { width, height } = node.querySelector("rect");
    return {
      x: Number(node.dataset.x), y: Number(node.dataset.y), w: width.baseVal.value / 2, h: height.baseVal.value / 2,
    };
  });
  const everyone = boxes.map((box, i) => i);
  const growth = () => nodes.length > most ? 1 : Math.max(1, readable / letter * natural / width);
  const inside = (middle, half, end) => Math.min(Math.max(middle, half), Math.max(end - half, end / 2));
  const place = (grow) => boxes.forEach((box, i) => {  // grown at the rim, a box would be cut off: it moves inwards
    box.grownX = inside(box.x, grow * box.w, natural);
    box.grownY = inside(box.y, grow * box.h, high);
    nodes[i].style.setProperty("--right", (box.grownX - box.x) + "px");
    nodes[i].style.setProperty("--down", (box.grownY - box.y) + "px");
  });
  const meet = (a, b, mine, other) =>
    Math.abs(a.grownX - (other ? b.grownX : b.x)) < mine * a.w + other * b.w
    && Math.abs(a.grownY - (other ? b.grownY : b.y)) < mine * a.h + other * b.h;
  const withRoom = (wanted, spared) => {
    const grow = growth(), named = [];
    for (const i of wanted) {
      const hides = (k, other) => k !== i && meet(boxes[i], boxes[k], grow, other);
      if (grow === 1 || !(named.some((k) => hides(k, grow)) || spared.some((k) => hides(k, 0)))) named.push(i);
    }
    return new Set(named);
  };
  let atRest = new Set(everyone);
  const label = (named) => nodes.forEach((node, i) => node.classList.toggle("small", !named.has(i)));

  const show = (i) => {
    const some = hits();
    label(i >= 0 ? withRoom([i, ...classes[i].alike], []) : some === null ? atRest : withRoom(some, []));
    graph.classList.toggle("focused", i >= 0);
    const alike = new Set(i < 0 ? [] : classes[i].alike);
    nodes.forEach((node, k) => {
      node.classList.toggle("chosen", k === i);
      node.classList.toggle("alike", alike.has(k));
      node.classList.toggle("kin", i >= 0 && k !== i && classes[k].group === classes[i].group);
    });
    rays.replaceChildren(...Array.from(alike, (k) => ray(i, k)));
    if (i < 0) panel.replaceChildren(element("p", welcome));
    else describe(i);
  };
  const pin = (i) => { pinned = i; show(i); };
  const reveal = (i) => nodes[i].scrollIntoView({ block: "nearest", inline: "center" });

  nodes.forEach((node, i) => {
    node.addEventListener("pointerenter", (event) => {
      if (event.pointerType === "mouse" && pinned < 0) show(i);
    });
    node.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse" && pinned < 0) show(-1);
    });
    node.addEventListener("click", (event) => { event.stopPropagation(); pin(pinned === i ? -1 : i); });
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      pin(pinned === i ? -1 : i);
    });
  });
  graph.addEventListener("click", () => pin(-1));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") pin(-1); });

  const hits = () => {
    const wanted = search.value.trim().toLowerCase();
    return wanted ? classes.map((one, i) => i).filter((i) => classes[i].name.toLowerCase().includes(wanted)) : null;
  };
  search.addEventListener("input", () => {
    const some = hits();
    pin(-1);  // which names those that were found
    graph.classList.toggle("searching", some !== null);
    nodes.forEach((node, i) => node.classList.toggle("found", some !== null && some.includes(i)));
    const names = new Set((some || []).map((i) => classes[i].name));
    rows.forEach((row) => {
      row.hidden = some !== null && !names.has(row.cells[0].textContent) && !names.has(row.cells[2].textContent);
    });
    found.textContent = some === null ? "" : plural(some.length, "class", "classes") + " found";
    if (some !== null && some.length === 1) reveal(some[0]);
  });
  search.addEventListener("keydown", (event) => {
    const some = event.key === "Enter" ? hits() : null;
    if (some && some.length) { pin(some[0]); reveal(some[0]); }
  });

  const zoom = (wanted) => {
    const middle = [frame.scrollLeft + frame.clientWidth / 2, frame.scrollTop + frame.clientHeight / 2];
    const old = width;
    width = Math.min(Math.max(wanted, 200), 4 * natural);
    graph.style.width = width + "px";
    frame.scrollLeft = middle[0] * width / old - frame.clientWidth / 2;
    frame.scrollTop = middle[1] * width / old - frame.clientHeight / 2;
    graph.style.setProperty("--grow", growth());
    place(growth());
    atRest = withRoom(everyone, everyone);
    graph.append(...nodes.filter((node, i) => atRest.has(i)));  // what is drawn last lies on top
    show(pinned);
  };
  const fitted = () => Math.min(frame.clientWidth, (parseFloat(getComputedStyle(frame).maxHeight) - 2) * natural / high);
  find("smaller").addEventListener("click", () => zoom(width / 1.25));
  find("larger").addEventListener("click", () => zoom(width * 1.25));
  find("fit").addEventListener("click", () => zoom(fitted()));
  zoom(Math.min(fitted(), 1.3 * natural));
})();
