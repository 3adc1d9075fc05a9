"""The picture and the page show the graph as it is, and class names stay text."""

import base64
import dataclasses
import hashlib
import itertools
import json
import os
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from matplotlib import _pylab_helpers
from PIL import Image

from gddsg.core.grouping import canonical_groups as divided_groups
from gddsg.core.similarity_graph import SimilarityGraph
from gddsg.errors import DataError, InputError, MissingExtraError
from gddsg.report.graph_drawing import COLOURS, drawing_of, text_colour
from gddsg.report.graph_page import save_graph_html
from gddsg.report.graph_picture import graph_figure, save_graph_png

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '"><svg onload="alert(3)">',
    "'; alert(4); //",
    "<!-- &lt; $title ${style} -->",
    "\u2028\x00\x1b[31m\nline",
    "\ud800half",
    "$\\frac{",
    "",
)
as_root = os.name == "posix" and os.geteuid() == 0


def canonical_groups(graph):
    return divided_groups(graph, dict.fromkeys(graph.labels, 0))


def graph_of(labels, share=0.4, seed=0):
    """Points on a circle, of which the given share of pairs is similar."""
    angles = torch.rand(len(labels), generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3
    distances = 1 - torch.cos(angles[:, None] - angles[None, :])
    limit = float(distances.flatten().quantile(share))
    adjacency = (distances <= limit) & ~torch.eye(len(labels), dtype=torch.bool)
    return SimilarityGraph(tuple(labels), distances, torch.full((len(labels),), limit), adjacency)


def page_of(path, graph, counts=None):
    save_graph_html(path, graph, canonical_groups(graph), counts)
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


class Page(HTMLParser):
    """What a browser would make of the page: its elements, and the text in each kind of element."""

    def __init__(self):
        super().__init__()
        self.elements, self.texts, self._open = [], {}, []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if self._open:
            self.texts.setdefault(self._open[-1][0], []).append(data)

    def of(self, tag, **attrs):
        return [found for name, found in self.elements if name == tag and attrs.items() <= found.items()]

    @property
    def facts(self):
        return json.loads(self.texts["script"][0])


@pytest.fixture
def animals():
    return graph_of(["cat", "cow", "dog", "fox", "hen", "owl", "pig", "rat"])


def texts_of(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_every_class_is_a_box_with_name_group_and_count(animals):
    groups = canonical_groups(animals)
    figure = graph_figure(animals, groups, {label: 10 + i for i, label in enumerate(animals.labels)})
    number = {label: g for g, group in enumerate(groups) for label in group}
    expected = [f"{label} · {number[label]} ({10 + i})" for i, label in enumerate(animals.labels)]
    assert texts_of(figure)[: len(expected)] == expected


def test_boxes_have_the_colour_of_their_group(animals):
    groups = canonical_groups(animals)
    colours = [patch.get_facecolor() for patch in graph_figure(animals, groups).axes[0].patches]
    number = {label: g for g, group in enumerate(groups) for label in group}
    for (one, first), (other, second) in itertools.combinations(zip(animals.labels, colours, strict=True), 2):
        assert (first == second) == (number[one] == number[other])


def test_colours_are_distinct_and_text_on_them_readable():
    assert len(set(COLOURS)) == len(COLOURS) >= 30
    assert text_colour("#ffffff") == "#000"
    assert text_colour("#000000") == "#fff"


def test_a_sparse_graph_is_drawn_whole(animals):
    adjacency = torch.zeros_like(animals.adjacency)
    adjacency[0, 1] = adjacency[1, 0] = adjacency[2, 3] = adjacency[3, 2] = True
    sparse = dataclasses.replace(animals, adjacency=adjacency)
    figure = graph_figure(sparse, canonical_groups(sparse))
    assert len(figure.axes[0].collections[0].get_segments()) == 2
    assert "all 2 similar pairs" in " ".join(texts_of(figure)[-1].split())


def test_of_a_dense_graph_the_closest_are_drawn_and_the_caption_says_so():
    graph = graph_of([f"class {i:02d}" for i in range(40)], share=0.7)
    pairs = int(graph.adjacency.sum()) // 2
    drawing = drawing_of(graph, canonical_groups(graph), None)
    assert f"each class with its 3 closest look-alikes of {pairs} similar pairs" in drawing.caption
    drawn = set(drawing.drawn)
    expected = set()
    for i in range(40):
        alike = [j for j in np.argsort(graph.distances[i].numpy(), kind="stable") if graph.adjacency[i, j]]
        expected |= {(min(i, int(j)), max(i, int(j))) for j in alike[:3]}
    assert drawn == expected


def test_closer_pairs_have_darker_and_thicker_lines(animals):
    drawing = drawing_of(animals, canonical_groups(animals), None)
    lines = graph_figure(animals, canonical_groups(animals)).axes[0].collections[0]
    widths, greys = lines.get_linewidths(), lines.get_colors()[:, 0]
    lengths = sorted((float(drawing.distances[pair]) for pair in drawing.drawn), reverse=True)
    assert len(widths) == len(lengths)
    assert list(widths) == sorted(widths)
    assert list(greys) == sorted(greys, reverse=True)
    assert widths[-1] > 2 * widths[0]


@pytest.mark.parametrize("n", [1, 2, 3, 12, 100])
def test_no_box_covers_another_or_leaves_the_picture(n):
    graph = graph_of([f"class number {i}" for i in range(n)], share=0.68)
    drawing = drawing_of(graph, canonical_groups(graph), None)
    assert (drawing.centres - drawing.halves >= 0).all()
    assert (drawing.centres + drawing.halves <= drawing.extent).all()
    for i, j in itertools.combinations(range(n), 2):
        apart = np.abs(drawing.centres[i] - drawing.centres[j]) - drawing.halves[i] - drawing.halves[j]
        assert apart.max() > 0


def test_texts_fit_into_their_boxes():
    graph = graph_of(["WWWWWWWW", "MMMM mmmm", "small", "Greek capital Omega", "x" * 80])
    figure = graph_figure(graph, canonical_groups(graph), dict.fromkeys(graph.labels, 1234))
    figure.canvas.draw()
    for patch, text in zip(figure.axes[0].patches, figure.axes[0].texts, strict=False):
        box, ink = patch.get_window_extent(), text.get_window_extent()
        assert box.x0 < ink.x0
        assert ink.x1 < box.x1


def test_the_figure_grows_with_the_classes():
    sizes = []
    for n in (10, 40, 80):
        graph = graph_of([f"class {i:02d}" for i in range(n)])
        sizes.append(np.prod(graph_figure(graph, canonical_groups(graph)).get_size_inches()))
    assert sizes == sorted(sizes)
    assert sizes[2] > 2 * sizes[0]


def test_equal_graphs_give_equal_files(animals, tmp_path):
    groups = canonical_groups(animals)
    for save, kind in ((save_graph_png, "png"), (save_graph_html, "html")):
        first, second = tmp_path / f"one.{kind}", tmp_path / f"two.{kind}"
        save(first, animals, groups)
        save(second, animals, groups)
        assert first.read_bytes() == second.read_bytes()


def test_the_png_is_an_image_and_pyplot_is_left_alone(animals, tmp_path):
    figures = _pylab_helpers.Gcf.get_all_fig_managers()
    save_graph_png(tmp_path / "graph.png", animals, canonical_groups(animals))
    with Image.open(tmp_path / "graph.png") as image:
        image.load()
        assert image.format == "PNG"
        assert min(image.size) > 300
    assert _pylab_helpers.Gcf.get_all_fig_managers() == figures


def test_classes_may_be_numbers_coincide_or_have_no_look_alikes(tmp_path):
    zeros = torch.zeros(3, 3, dtype=torch.float64)
    same = SimilarityGraph((3, 7, 11), zeros, zeros[0], ~torch.eye(3, dtype=torch.bool))
    apart = dataclasses.replace(same, distances=zeros + 1, adjacency=torch.zeros(3, 3, dtype=torch.bool))
    for graph in (same, apart):
        save_graph_png(tmp_path / "graph.png", graph, canonical_groups(graph))
        page = page_of(tmp_path / "graph.html", graph)
        assert [fact["name"] for fact in page.facts] == ["3", "7", "11"]
    assert "There are no look-alikes." in page.texts["caption"]


def test_groups_of_similar_classes_are_not_called_unlike(animals):
    together = (animals.labels,)
    assert "not look-alikes" not in drawing_of(animals, together, None).legend
    assert "not look-alikes" in drawing_of(animals, canonical_groups(animals), None).legend


def test_repeated_colours_are_owned_up_to():
    graph = graph_of([f"class {i:02d}" for i in range(40)], share=1.0)
    legend = drawing_of(graph, canonical_groups(graph), None).legend
    assert "colours repeat after 32 groups" in legend


def test_the_page_tells_facts_and_rivals(animals, tmp_path):
    groups = canonical_groups(animals)
    page = page_of(tmp_path / "graph.html", animals, {"cat": 5})
    assert len(page.of("g", role="button")) == len(animals.labels)
    for i, (label, fact) in enumerate(zip(animals.labels, page.facts, strict=True)):
        assert fact["name"] == label
        assert label in groups[fact["group"]]
        assert fact["count"] == (5 if label == "cat" else None)
        assert fact["alikeCount"] == len(fact["alike"]) == int(animals.adjacency[i].sum())
        assert all(animals.adjacency[i, j] for j in fact["alike"])
        lengths = [float(distance) for _, distance, _ in fact["near"]]
        assert lengths == sorted(lengths)
        assert all(similar == bool(animals.adjacency[i, j]) for j, _, similar in fact["near"])


def test_the_table_lists_pairs_closest_first(animals, tmp_path):
    page = page_of(tmp_path / "graph.html", animals)
    cells = [text for text in page.texts["td"] if text.strip()]
    lengths = [float(text) for text in cells[4::5]]
    assert len(lengths) == int(animals.adjacency.sum()) // 2
    assert lengths == sorted(lengths)


def test_a_long_table_is_cut_and_says_so(tmp_path):
    graph = graph_of([f"class {i:02d}" for i in range(40)], share=0.9)
    pairs = int(graph.adjacency.sum()) // 2
    page = page_of(tmp_path / "graph.html", graph)
    assert f"the 500 closest of {pairs}" in page.texts["caption"][0]
    assert len(page.of("tr")) == 501


def test_names_from_strangers_stay_text(tmp_path):
    harmless = graph_of([f"name {i}" for i in range(len(HOSTILE))])
    hostile = dataclasses.replace(harmless, labels=HOSTILE)
    groups = tuple(
        tuple(HOSTILE[harmless.labels.index(label)] for label in group) for group in canonical_groups(harmless)
    )
    save_graph_png(tmp_path / "graph.png", hostile, groups)
    save_graph_html(tmp_path / "graph.html", hostile, groups)
    page, plain = Page(), page_of(tmp_path / "plain.html", harmless)
    page.feed((tmp_path / "graph.html").read_text(encoding="utf-8"))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    for (_, attrs), (_, plain_attrs) in zip(page.elements, plain.elements, strict=True):
        assert list(attrs) == list(plain_attrs)
    names = [fact["name"] for fact in page.facts]
    assert names[:5] == list(HOSTILE[:5])
    assert names[5:] == ["[31m line", "half", "$\\frac{", "(no name)"]


def test_the_page_loads_nothing_and_may_run_only_its_own_script(animals, tmp_path):
    page = page_of(tmp_path / "graph.html", animals)
    assert not {"link", "img", "iframe", "a", "base", "form"} & {tag for tag, _ in page.elements}
    assert not any({"src", "href", "style"} & set(attrs) for _, attrs in page.elements)
    assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
    (policy,) = (meta["content"] for meta in page.of("meta") if "http-equiv" in meta)
    assert "default-src 'none'" in policy
    for text in (page.texts["script"][1], page.texts["style"][0]):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy


def test_the_page_suits_phones_and_both_schemes(animals, tmp_path):
    page = page_of(tmp_path / "graph.html", animals)
    assert page.of("meta", name="viewport")
    assert "prefers-color-scheme: dark" in page.texts["style"][0]
    assert "max-width" in page.texts["style"][0]
    assert page.texts["title"][0] == page.texts["h1"][0] == "Similarity graph: 8 classes in 3 groups"


def test_old_files_are_replaced_and_nothing_is_left_beside_them(animals, tmp_path):
    path = tmp_path / "graph.html"
    path.write_text("old")
    save_graph_html(str(path), animals, canonical_groups(animals))
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["no such folder/graph", "file/graph", "folder", "null\0character", "n" * 300])
@pytest.mark.parametrize("save", [save_graph_png, save_graph_html])
def test_files_that_cannot_be_written_are_reported(save, name, animals, tmp_path):
    (tmp_path / "file").write_text("text")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="create the folder or choose another"):
        save(tmp_path / name, animals, canonical_groups(animals))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.posix
@pytest.mark.skipif(as_root, reason="root may do what permission bits forbid")
def test_a_folder_that_may_not_be_written_is_reported(animals, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match="you may write to"):
        save_graph_html(tmp_path / "graph.html", animals, canonical_groups(animals))
    tmp_path.chmod(0o700)


def test_an_empty_graph_is_refused():
    none = torch.zeros(0, 0)
    with pytest.raises(InputError, match="at least one"):
        graph_figure(SimilarityGraph((), none, none[:0], none.bool()), ())


@pytest.mark.parametrize("groups", [(("cat",),), (("cat", "cat", "cow", "dog", "fox", "hen", "owl", "pig", "rat"),)])
def test_groups_of_another_model_are_refused(groups, animals):
    with pytest.raises(InputError, match="from the same model"):
        graph_figure(animals, groups)


def test_groups_with_a_class_too_many_are_refused(animals):
    with pytest.raises(InputError, match="'yak' is 1 time in the groups and 0 times in the graph"):
        graph_figure(animals, (*canonical_groups(animals), ("yak",)))


def test_the_page_needs_no_matplotlib_and_the_picture_says_that_it_does(animals, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    save_graph_html(tmp_path / "graph.html", animals, canonical_groups(animals))
    with pytest.raises(MissingExtraError, match="pip install matplotlib"):
        save_graph_png(tmp_path / "graph.png", animals, canonical_groups(animals))
