"""How pages of the site come about: formulas, links, docstrings, sources; and what the check of the site finds."""

import re
from pathlib import Path

import griffe
import markdown
import pytest
from docs_site import check, commands, docstrings, links, reference, sources
from docs_site.formulas import Formulas, mathml

ROOT = Path(__file__).parents[2]
FORMULA = re.compile(r"\$\$([^$]+)\$\$|\$([^$]+)\$")


def html(text):
    return markdown.markdown(text, extensions=[Formulas(), "tables"])


def test_formulas_become_mathml_and_other_dollars_stay():
    assert html(r"of $\mu_i$ and $x$").count("<math") == 2
    assert html(r"costs \$5, \~ 6 and $ 7") == "<p>costs $5, ~ 6 and $ 7</p>"
    assert html("`$x$`") == "<p><code>$x$</code></p>"
    assert html("$$x_1\n= y_1$$").startswith('<div class="formula"><math')
    assert "_" not in re.sub(r"<[^>]+>", "", html("$a_1 + b_1$"))


@pytest.mark.parametrize("page", ["method.md", "theory.md"])
def test_every_formula_is_understood(page):
    text = "".join((ROOT / "docs" / page).read_text().split("```")[::2])
    found = [block or inline for block, inline in FORMULA.findall(text)]
    assert len(found) > 20
    for formula in found:
        assert "\\" not in re.sub(r"<[^>]+>", "", mathml(formula)), formula


def test_links_fit_the_site():
    def source(path):
        return f"source/{path}.html"

    def target(page, link):
        return links.site_target(page, link, source)

    assert target("method.md", "symbols.md#names") == "symbols.md#names"
    assert target("method.md", "../CHANGELOG.md") == "changelog.md"
    assert target("method.md", "../README.md") == "index.md"
    assert target("benchmark/report.md", "../../experiments") == "../source/experiments.html"
    assert target("method.md", "../src/gddsg/core/metric.py") == "reference/gddsg.core.metric.md"
    assert target("contributing.md", "docs/privacy.md") == "privacy.md"
    assert target("method.md", "https://example.org/a.md") == "https://example.org/a.md"
    with pytest.raises(FileNotFoundError, match=r"nowhere\.md"):
        target("method.md", "nowhere.md")


def test_links_in_code_are_left_alone():
    text = "[a](b.md)\n\n```sh\n[a](b.md)\n```\n\n`[a](b.md)` ![c](d.png)"
    assert list(links.targets(text)) == ["b.md", "d.png"]


@pytest.fixture
def package(tmp_path):
    (tmp_path / "shapes").mkdir()
    (tmp_path / "shapes/__init__.py").write_text('"""Shapes: :mod:`.round`."""\nfrom shapes.round import Circle\n')
    (tmp_path / "shapes/round.py").write_text(
        '"""Round ones, see :func:`~shapes.round.area` and :class:`numpy.ndarray`.\n\n::\n\n    a ─▶ b\n"""\n'
        "PI = 3.14\n\n\n"
        'class Circle:\n    """A circle."""\n\n    def grow(self, by: int = 2) -> None:\n'
        '        """As :meth:`Circle.grow` and :func:`area`; not :func:`lost`.\n\n'
        '        Parameters\n        ----------\n        by : object\n            Times.\n        """\n\n\n'
        'def area(circle: Circle) -> float:\n    """Of a :class:`Circle`."""\n'
    )
    return griffe.load("shapes", search_paths=[tmp_path], extensions=griffe.load_extensions())


def test_roles_become_links(package, caplog):
    text = docstrings.as_markdown(package["round"].docstring.value, package["round"])
    assert text == "Round ones, see [`area`][shapes.round.area] and `numpy.ndarray`.\n\n\n\n    a ─▶ b"
    assert docstrings.as_markdown(package.docstring.value, package) == "Shapes: [`round`][shapes.round]."
    grow = package["round.Circle.grow"]
    shown = docstrings.as_markdown(grow.docstring.value, grow)
    assert "[`Circle.grow`][shapes.round.Circle.grow] and [`area`][shapes.round.area]; not `lost`" in shown
    assert docstrings.link("Circle", package) == "[`Circle`][shapes.round.Circle]"
    assert "nothing is called 'lost'" in caplog.text


def test_types_come_from_signatures_where_the_docstring_has_none(package):
    grow = package["round.Circle.grow"]
    docstrings._complete(grow)
    parameter = grow.docstring.parsed[1].value[0]
    assert (str(parameter.annotation), parameter.value) == ("int", "2")


def test_every_public_module_has_a_page():
    files = (ROOT / "src").rglob("*.py")
    names = {".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__") for path in files}
    public = {name for name in names if not any(part.startswith("_") for part in name.split("."))} - {"gddsg"}
    assert {page.removeprefix("reference/").removesuffix(".md") for page in reference.pages("")} == public | {"index"}


def test_files_of_the_repository_get_pages():
    assert sources.address_of("experiments/trust.toml", "", 3) == "source/experiments/trust.toml.html#L-3"
    assert sources.address_of("a/b.py", "https://example.org/{path}#L{line}", 3) == "https://example.org/a/b.py#L3"
    assert 'id="L-3"' in sources.content_of("experiments/trust.toml")
    assert 'href="experiments/trust.toml.html"' in sources.content_of("experiments")
    assert sources.page_of("experiments/records/trust.jsonl") == "source/experiments/records/trust.jsonl"
    assert "experiments/records/trust.jsonl" in sources.with_contents({"experiments"})


def test_every_option_is_listed():
    text = commands.section()
    assert "### gddsg learn" in text
    assert "### gddsg bench run" in text
    assert "| `--quality` `fast,good,best` |" in text
    assert "| `MODEL` | Model file. |" in text


def site(folder, **pages):
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)
    return {path.name: path.read_text() for path in folder.glob("*.html")}


def test_the_check_finds_dead_links_lost_pages_and_what_is_fetched(tmp_path):
    index = '<a href="a.html#here">a</a> <a href="b.html">b</a> <script src="https://example.org/x.js"></script>'
    texts = site(tmp_path, index=index, a='<p id="there"></p><a href="https://example.org">e</a>', lost="")
    assert list(check.dead_links(texts, tmp_path)) == [
        "index.html links to a.html#here, which has no such place",
        "index.html links to b.html, which is not there",
    ]
    assert list(check.unreached(texts)) == ["lost.html is not reached from index.html"]
    assert list(check.fetched(texts, tmp_path)) == ["index.html fetches https://example.org/x.js"]
    (tmp_path / "s.css").write_text("@font-face { src: url(https://example.org/f.woff) }")
    assert "s.css fetches url(https://example.org/f.woff" in list(check.fetched(texts, tmp_path))


def test_the_check_finds_names_without_an_entry(package):
    area = package["round.area"]
    heading = '<h3 id="shapes.round.area" class="doc doc-heading">area</h3><pre>area(<b>circle</b>: Circle)</pre>'
    assert list(check.entry_faults(area, "")) == ["has no heading"]
    assert list(check.entry_faults(area, heading)) == ["has no source link"]
    assert list(check.entry_faults(area, heading + '<p class="source-link">')) == []
    untyped = heading.replace(": Circle", "") + '<p class="source-link">'
    assert list(check.entry_faults(area, untyped)) == ["circle is not shown with its type"]
