"""The page of an evaluation: text stays text, thumbnails are in it, and there is an end to everything."""

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from gddsg.errors import DataError
from gddsg.photos.reports import ClassResult, PhotoEvaluation, WrongPhoto
from gddsg.report.evaluation_page import save_evaluation_html

HOSTILE = (
    "</style><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '"><svg onload="alert(3)">',
    "$title ${style} &lt;",
    "\u2028\x00\x1b[31m\nline",
    "\ud800half",
    "",
)


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def evaluation(labels=("fox", "owl"), wrong=(), learnt=(0, 0)):
    """Ten photos a class, of which one is taken for the next class."""
    classes = tuple(ClassResult(label, 10, 9, 0) for label in labels)
    confusions = tuple((labels[i], labels[(i + 1) % len(labels)], 1) for i in range(len(labels)))
    return PhotoEvaluation(classes, confusions, (), (), 0.1, *learnt, tuple(wrong))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "page.html"


def test_figures_picture_and_photos(path, tmp_path):
    Image.fromarray(np.full((300, 600, 3), (200, 30, 30), np.uint8)).save(tmp_path / "1.png")
    wrong = [
        WrongPhoto(str(tmp_path / "1.png"), "fox", "owl", 0.876, True),
        WrongPhoto("gone.png", "owl", "fox", 0.5, False),
    ]
    save_evaluation_html(path, evaluation(wrong=wrong, learnt=(4, 4)), "m.gddsg")
    page = Page(path)
    assert "m.gddsg: 90.0 % of 20 photos right" in page.text
    assert (
        "The model has learnt 4 of these photos, or near copies of them; accuracy on the 16 others: 87.5 %."
        in page.text
    )
    assert "owl (87.6 %)labelled fox. It has been learnt." in page.text
    assert "not to be read any more" in page.text
    (thumbnail,) = page.all("img")
    header, _, content = thumbnail["src"].partition(",")
    assert header == "data:image/jpeg;base64"
    image = Image.open(io.BytesIO(base64.b64decode(content)))
    assert image.size == (224, 112)
    assert np.abs(np.asarray(image, float).mean((0, 1)) - (200, 30, 30)).max() < 5
    cells = [one for one in page.all("rect") if one["class"] in ("right", "wrong")]
    assert sorted(one["class"] for one in cells) == ["right", "right", "wrong", "wrong"]
    assert "fox taken for owl: 1 (10.0 %)" in page.text


def test_names_stay_text(path):
    wrong = [WrongPhoto(name, name, name, 0.5, False) for name in HOSTILE]
    save_evaluation_html(path, evaluation(HOSTILE, wrong), HOSTILE[0])
    page = Page(path)
    allowed = {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "p",
        "div",
        "svg",
        "rect",
        "text",
        "ul",
        "li",
    }
    allowed |= {"span", "strong", "small", "table", "thead", "tbody", "tr", "th", "td"}
    assert {tag for tag, _ in page.elements} <= allowed
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert HOSTILE[1] in page.text
    assert "$title ${style} &lt;" in page.text
    policy = page.all("meta")[1]["content"]
    assert policy.startswith("default-src 'none'")
    assert "script" not in policy


def test_the_page_loads_nothing(path):
    save_evaluation_html(path, evaluation(), "m")
    text = path.read_text()
    assert not re.search(r"https?:|url\(|<link|<script|<iframe", text)


def test_many_classes_and_many_photos_are_cut_short(path):
    labels = tuple(f"class {i:03} {'x' * 50}" for i in range(300))
    wrong = [WrongPhoto(f"{i}.png", labels[0], labels[1], 0.5, False) for i in range(500)]
    save_evaluation_html(path, evaluation(labels, wrong), "m")
    page = Page(path)
    assert len(page.all("li")) == 200
    assert "the 200 of 500 that it is surest of" in page.text
    assert "The 40 classes that are confused most; 260 others are left out." in page.text
    assert float(page.all("svg")[0]["width"]) < 1200
    assert len(page.all("td")) == 4 * 300


def test_all_right(path):
    classes = (ClassResult("fox", 3, 3, 0),)
    save_evaluation_html(path, PhotoEvaluation(classes, (), (), (), 0.0, 3, 3, ()), "m")
    text = Page(path).text
    assert "All photos were right." in text
    assert "there are no others, so this says little about new photos" in text


def test_places_where_no_page_can_be(tmp_path):
    for wrong, message in (("x.txt", "ends in .html"), ("no/x.html", "There is no folder")):
        with pytest.raises(DataError, match=message):
            save_evaluation_html(tmp_path / wrong, evaluation(), "m")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(DataError, match="cannot be written there"):
        save_evaluation_html(tmp_path / "folder.html", evaluation(), "m")
