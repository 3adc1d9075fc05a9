"""The script of the page, run by Node where it is installed, on the few parts of a browser that it touches."""

import json
import shutil
import subprocess
from itertools import combinations

import numpy as np
import pytest
from tests.report.test_graph_picture import graph_of, page_of
from typer.testing import CliRunner

from gddsg import GDDSG
from gddsg.cli import app

FRAME = (1000, 600)
READABLE = 10  # pixels
BROWSER = """
const { page, width, height } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const make = (more = {}) => {
  const classes = new Set(), events = {};
  return {
    style: { setProperty(name, value) { this[name] = value; } }, classes, events, children: [], textContent: "",
    classList: { toggle: (name, on) => on ? classes.add(name) : classes.delete(name) },
    addEventListener: (name, action) => { events[name] = action; },
    append(...some) { this.children = [...this.children.filter((one) => !some.includes(one)), ...some]; },
    replaceChildren(...some) { this.children = some; }, setAttribute() {}, scrollIntoView() {}, ...more,
  };
};
const nodes = page.boxes.map(({ x, y, w, h }) => {
  const rect = { width: { baseVal: { value: w } }, height: { baseVal: { value: h } } };
  return make({ dataset: { x, y }, querySelector: () => rect });
});
const ids = { search: make({ value: "" }), classes: make({ textContent: page.classes }) };
ids.frame = make({ clientWidth: width, clientHeight: height, scrollLeft: 0, scrollTop: 0 });
ids.graph = make({
  viewBox: { baseVal: { width: page.width, height: page.height } }, querySelectorAll: () => nodes, children: nodes,
});
globalThis.document = {
  getElementById: (id) => ids[id] ??= make(), querySelectorAll: () => [], createElement: () => make(),
  createElementNS: () => make(), addEventListener() {},
};
globalThis.getComputedStyle = () => ({ maxHeight: height + "px" });
(0, eval)(page.script);

const state = () => ({
  width: parseFloat(ids.graph.style.width), grow: ids.graph.style["--grow"],
  named: nodes.map((node, i) => i).filter((i) => !nodes[i].classes.has("small")),
  lifted: ids.graph.children.map((node) => nodes.indexOf(node)),
});
const states = { opened: state() };
for (let k = 0; k < 20; k++) ids.larger.events.click();
states.closer = state();
ids.fit.events.click();
states.fitted = state();
nodes[page.point].events.pointerenter({ pointerType: "mouse" });
states.pointed = state();
nodes[page.point].events.pointerleave({ pointerType: "mouse" });
states.left = state();
ids.search.value = page.search;
ids.search.events.input();
states.searched = state();
console.log(JSON.stringify(states));
"""
node_only = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed; it runs the script")


def states_of(page, **about):
    """Width, growth and named boxes: when the page opens, zoomed in, fitted again, pointed at, left and searched."""
    (svg,) = page.of("svg")
    boxes = [
        {"x": float(group["data-x"]), "y": float(group["data-y"]), "w": float(box["width"]), "h": float(box["height"])}
        for group, box in zip(page.of("g", role="button"), page.of("rect"), strict=True)
    ]
    width, height = map(float, svg["viewbox"].split()[2:])
    texts = {"classes": page.texts["script"][0], "script": page.texts["script"][1]}
    given = {"page": {"boxes": boxes, "width": width, "height": height, "point": 0, "search": "", **texts, **about}}
    done = subprocess.run(
        ["node", "-e", BROWSER],
        input=json.dumps(given | {"width": FRAME[0], "height": FRAME[1]}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), boxes, (width, height)


def meet(a, b, grow, other):
    return all(abs(a[at] - b[at]) < (grow * a[side] + other * b[side]) / 2 for at, side in ("xw", "yh"))


@node_only
@pytest.mark.parametrize("n", [3, 60])
def test_the_page_opens_fitted_with_names_that_can_be_read(tmp_path, n):
    page = page_of(tmp_path / "graph.html", graph_of([f"a class of birds {i:02}" for i in range(n)]))
    states, boxes, (width, height) = states_of(page)
    opened = states["opened"]
    assert opened["width"] <= FRAME[0]
    assert opened["width"] * height / width <= FRAME[1]
    scale = opened["width"] / width
    assert opened["grow"] * scale * 13 >= READABLE - 1e-6
    named = opened["named"]
    assert (len(named) == n) if n == 3 else (n > len(named) >= 10)
    for i, k in combinations(named, 2):
        assert not meet(boxes[i], boxes[k], opened["grow"], opened["grow"])
    assert not any(meet(boxes[i], boxes[k], opened["grow"], 0) for i in named for k in range(n) if k != i and n > 3)
    assert opened["lifted"][-len(named) :] == named  # they lie on top of the others
    assert sorted(opened["lifted"]) == list(range(n))
    assert states["fitted"]["width"] >= opened["width"]
    assert states["closer"]["grow"] == 1
    assert states["closer"]["named"] == list(range(n))


@node_only
def test_what_is_pointed_at_or_found_has_a_name(tmp_path):
    graph = graph_of([f"a class of birds {i:02}" for i in range(60)])
    page = page_of(tmp_path / "graph.html", graph)
    first = states_of(page)[0]["opened"]["named"]
    nameless = next(i for i in range(60) if i not in first)
    states, _, _ = states_of(page, point=nameless, search=f"birds {nameless:02}")
    assert nameless in states["pointed"]["named"]
    alike = {k for k in range(60) if graph.adjacency[nameless, k]}
    assert set(states["pointed"]["named"]) <= {nameless, *alike}
    assert states["left"]["named"] == first
    assert states["searched"]["named"] == [nameless]


def test_the_page_as_typed(tmp_path):
    """A box grows about its middle, and one without room has no name; that is what the script relies on."""
    features = np.random.default_rng(0).random((20, 8)).astype(np.float32)
    GDDSG(projection_dim=8).fit(features, ["cat", "dog"] * 10).save(tmp_path / "m.gddsg")
    done = CliRunner().invoke(app, ["inspect", str(tmp_path / "m.gddsg"), "--graph", str(tmp_path / "x.html")])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "x.html").read_text()
    assert "transform: translate(var(--right, 0), var(--down, 0)) scale(var(--grow, 1))" in text
    assert "transform-origin: center" in text
    assert ".small text { visibility: hidden; }" in text
    assert "zoom(Math.min(fitted(), 1.3 * natural));" in text
