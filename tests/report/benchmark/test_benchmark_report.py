"""The report says what the records say, in both its forms, and names in them stay text."""

import html
import re
from html.parser import HTMLParser

import matplotlib as mpl
import pytest
from matplotlib import _pylab_helpers
from PIL import Image
from tests.report.benchmark.synthetic import HOSTILE, SEEDS, everything, stream, typed

from gddsg.errors import DataError
from gddsg.evaluation.protocol import RELEASED
from gddsg.report.benchmark import published, write_report


class Page(HTMLParser):
    """What a browser makes of a page: elements, and the text of every cell of every table."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.tables, self.marks, self.text = [], [], {}, ""
        self._heading, self._open, self._rows = "", [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._open.append(tag)
        if tag == "h3":
            self._heading = ""
        elif tag == "table":
            self._rows = []
            self.tables.append((self._heading, self._rows))
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
        elif tag in ("strong", "u"):
            self.marks.setdefault(self._heading, []).append((tag, self._rows[-1][0], len(self._rows[-1]) - 1))

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        self.text += data
        if "h3" in self._open:
            self._heading += data
        elif {"td", "th"} & set(self._open):
            self._rows[-1][-1] += data

    def named(self, start):
        return next(rows for title, rows in self.tables if title.startswith(start))


def markdown_tables(text):
    """The same of a Markdown file."""
    tables, rows = [], []
    for line in text.splitlines():
        if line.startswith("### "):
            rows = []
            tables.append((unescaped(line[4:]), rows))
        elif line.startswith("| ") and not line.startswith("| :--"):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            rows.append([unescaped(re.sub(r"^\*+|\*+$|</?u>", "", cell.strip())) for cell in cells])
    return tables


def unescaped(text):
    return html.unescape(re.sub(r"\\(.)", r"\1", text))


def plain(text):
    return text.replace("A_N", "AN").replace("F_N", "FN")


def page_of(records, folder):
    return Page(write_report(typed(records), folder).html.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_report(typed(everything({"cifar100": 20})), tmp_path_factory.mktemp("report") / "new" / "folder")


@pytest.fixture(scope="module")
def page(files):
    return Page(files.html.read_text(encoding="utf-8"))


def small(learner, order, accuracies, **more):
    """Three tasks of one class; ``accuracies`` are the final ones of classes a, b and c."""
    classes = {"seed 1": "abc", "seed 2": "cab", "hardest": "bca"}[order]
    final = [dict(zip("abc", accuracies, strict=True))[name] for name in classes]
    record = {
        "class_order": list(classes),
        "sizes": [1, 1, 1],
        "class_accuracies": [[100.0], [90.0, 90.0], final],
        "metrics": {"A_N": sum(final) / 3, "F_N": 10.0 if learner == "gddsg" else 12.0},
        "confusions": [],
        "groups": None,
    }
    return stream(learner, order=order, **{**record, "state_MB_per_task": None, "seconds_per_task": None, **more})


SMALL = (
    small("gddsg", "seed 1", (60, 70, 80)),
    small("gddsg", "seed 2", (60, 70, 80)),
    small("gddsg", "hardest", (60, 70, 80)),
    small("ranpac", "seed 1", (60, 66, 72)),
    small("ranpac", "seed 2", (60, 60, 72)),
    small("ranpac", "hardest", (50, 60, 40)),
    small("icarl", "seed 1", (90, 90, 90)),
    small("gddsg", "seed 1", (100, 100, 100), protocol="released", leaks=True),
)


def test_results_are_means_and_intervals_over_random_orders(tmp_path):
    rows = {row[0]: row[1:] for row in page_of(SMALL, tmp_path).named("Results")}
    assert rows["Learner"] == ["AN\u00a0↑", "FN\u00a0↓"]  # nobody measured the others
    assert rows["gddsg"] == ["70.00 ± 0.00", "10.00 ± 0.00"]
    # 66 and 64: mean 65, standard error 1, 97.5 % quantile of t with one degree of freedom 12.706
    assert rows["ranpac"] == ["65.00 ± 12.71", "12.00 ± 0.00"]
    assert rows["icarl"][0] == "90.00"


def test_order_metrics_by_position_and_by_class(tmp_path):
    rows = {row[0]: row[1:] for row in page_of(SMALL, tmp_path).named("Class orders")}
    # positions of gddsg: 60, 70, 80 and 80, 60, 70, that is ranges of 20, 10 and 10; its classes never move
    assert rows["gddsg"] == ["2", "20.00", "13.33", "0.00", "0.00", "70.00 (every order)", "0.00"]
    # positions of ranpac: 60, 66, 72 and 72, 60, 60; of its classes only b moves, by 6; the hardest order gives 50
    assert rows["ranpac"] == ["2", "12.00", "10.00", "6.00", "2.00", "50.00 (hardest)", "16.00"]


def test_disparity_is_shown_in_every_reading(tmp_path):
    records = [{**record, "experiment": "order-robustness"} for record in SMALL]
    page = page_of(records, tmp_path)
    rows = {row[0]: row[1:] for row in page.named("Disparity between orders")}
    kinds = [(title.split(",")[0], title.split(" ")[-1].split("\u00a0")[0]) for title in rows["Learner"]]
    assert kinds == [
        *(("Position", "MOPD"), ("Position", "AOPD"), ("Same task", "MOPD"), ("Same task", "AOPD")),
        *(("After t tasks", "MOPD"), ("After t tasks", "AOPD"), ("Class", "max"), ("Class", "mean")),
    ]
    # a task is one class here; after three tasks 66 and 64 remain of the same 100 and 90 before
    assert rows["gddsg"] == ["20.00", "13.33", *["0.00"] * 6]
    assert rows["ranpac"] == ["12.00", "10.00", "6.00", "2.00", "2.00", "0.67", "6.00", "2.00"]
    assert rows["icarl"] == ["–"] * 8


def test_tasks_are_followed_where_they_keep_their_classes(tmp_path):
    def pairs(order, classes, accuracies):
        finals = [accuracies[c] for c in classes]
        rows = {"class_order": list(classes), "sizes": [2, 2], "class_accuracies": [finals[:2], finals]}
        rest = {"confusions": [], "groups": None, "state_MB_per_task": None, "seconds_per_task": None}
        metrics = {"A_N": sum(finals) / 4}
        return stream("gddsg", order=order, experiment="fixed-tasks", metrics=metrics, **rows, **rest)

    first, second = dict(zip("abcd", (60, 70, 80, 90), strict=True)), dict(zip("abcd", (60, 66, 80, 90), strict=True))
    fixed = [pairs("seed 1 of tasks 1", "abcd", first), pairs("seed 2 of tasks 1", "dcba", second)]
    page = page_of(fixed, tmp_path)
    assert "Robustness to the order of tasks" in page.text
    (row,) = page.named("Disparity between orders")[1:]
    # positions: 65, 85 and 85, 63; a and b together move by 2, b by 4; after one task 65 and 85, after two 75 and 74
    assert row[1:] == ["22.00", "21.00", "2.00", "1.00", "20.00", "10.50", "4.00", "1.00"]
    shuffled = [fixed[0], pairs("seed 2 of tasks 1", "dbca", second)]
    assert not any("Same task" in title for title in page_of(shuffled, tmp_path).named("Disparity between orders")[0])


def test_ranges_rank_only_learners_of_as_many_orders(tmp_path):
    once_more = [{**record, "run": f"{record['run']}3", "order": "seed 3"} for record in SMALL[:1]]
    assert (once_more[0]["learner"], once_more[0]["order"]) == ("gddsg", "seed 3")
    assert any(title.startswith("Class orders") for title in page_of(SMALL, tmp_path).marks)
    assert not any(title.startswith("Class orders") for title in page_of([*SMALL, *once_more], tmp_path).marks)


def test_best_is_bold_and_second_underlined_among_those_that_keep_to_the_rules(tmp_path):
    marks = page_of(SMALL, tmp_path).marks
    found = next(marks[title] for title in marks if title.startswith("Results"))
    assert found == [("strong", "gddsg", 1), ("strong", "gddsg", 2), ("u", "ranpac", 1), ("u", "ranpac", 2)]


def test_others_stand_apart_under_the_reason_why(tmp_path):
    names = [row[0] for row in page_of(SMALL, tmp_path).named("Results")]
    assert names == [
        "Learner",
        "gddsg",
        "ranpac",
        "Keeps exemplars: samples of old classes are stored",
        "icarl",
        f"Leaks: {RELEASED.leaks}",
        "gddsg (released)",
    ]


def test_paired_comparison_uses_common_random_orders(tmp_path):
    rows = {row[0]: row[1:] for row in page_of(SMALL, tmp_path).named("Paired")}
    # differences of 4 and 6: mean 5 ± 12.706; t = 5 with one degree of freedom
    # by class 0, 7 and 8: mean 5, standard deviation √19, 97.5 % quantile of t with two degrees of freedom 4.303
    assert rows["ranpac"] == ["+5.00", "−7.71 to +17.71", "0.126", "2 of 2", "−5.83 to +15.83", "2 of 3"]
    assert rows["icarl – Keeps exemplars: samples of old classes are stored"] == [
        "−20.00",
        "–",
        "–",
        "0 of 1",
        "−44.84 to +4.84",
        "0 of 3",
    ]


def test_summary_names_the_best_and_how_certain_that_is(tmp_path):
    text = page_of(SMALL, tmp_path).text.replace("\u00a0", " ")
    assert "gddsg is best of 2 learners that keep to the rules, with AN = 70.00 ± 0.00 %" in text
    assert "within what other classes may change (2 of 2 class orders, +5.00 points, 95 % interval over" in text
    assert "gddsg (released) 100.00, honestly gddsg 70.00" in text


def test_a_later_record_of_a_run_replaces_an_earlier_one(tmp_path):
    failed = {**SMALL[0], "error": "KeyError: 'x'", "sizes": None, "class_order": None}
    assert "Runs that failed" not in page_of([failed, *SMALL], tmp_path).text


def test_published_values_stand_beside_ours_with_backbone_and_protocol(page):
    rows = page.named("Beside the paper's main table")
    ours = next(row for row in rows if row[0] == "gddsg")
    assert ours[3:5] == ["efficientnet-lite0", "honest"]
    assert ours[5:] == ["94.00 ± 0.03", "0.78 ± 0.09", "ViT-B/16", published.RELEASED]
    groups = next(row for row in page.named("Beside the paper's group counts") if row[0] == "gddsg")
    assert groups[8] == "7"
    ablation = page.named("Beside the paper's ablation")
    assert next(row for row in ablation if row[0] == "gddsg without class groups")[5] == "74.32"


def test_published_values_are_complete():
    values = published.main_results()
    assert len(values) == 9 * 4
    assert [(v.accuracy, v.forgetting) for v in values if v.method == "ranpac"] == [
        (90.50, 3.49), (89.23, 3.91), (85.37, 5.78), (78.86, 7.62),
    ]  # fmt: skip
    assert {v.protocol for v in values if v.method != "gddsg"} == {published.TOOLBOX}
    assert len(published.ablation()) == len(published.backbones()) == 12


def test_every_experiment_has_its_section_and_figures(page, files):
    titles = {attributes.get("id") for tag, attributes in page.elements if tag == "section"}
    linked = {attributes["href"][1:] for tag, attributes in page.elements if tag == "a"}
    assert titles == linked
    assert len(titles) == 10 + 1 + 1 + 4  # known, joined, unknown, and summary, failures, reading, about
    for figure in (
        "curves", "confusions", "protocols", "opd", "strip", "fan", "range", "similarity", "identification", "growth",
        "length", "embedding", "graph", "memory", "time",
    ):  # fmt: skip
        assert any(f"-{figure}-" in path.name for path in files.figures), figure
    assert "MissingExtraError: no umap" in page.text


def test_what_has_no_record_is_left_out(tmp_path):
    page = page_of(SMALL, tmp_path)
    assert "Ablation" not in page.text
    assert "Runs that failed" not in page.text
    assert "No run has been recorded yet" in page_of([], tmp_path).text


def test_the_page_asks_for_nothing(files, page):
    text = files.html.read_text(encoding="utf-8")
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.elements}
    sources = [
        v for _, attributes in page.elements for k, v in attributes.items() if k in ("href", "src", "xlink:href")
    ]
    assert all(source.startswith(("#", "data:image/png")) for source in sources)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))
    assert not [v for _, a in page.elements for v in a.values() if "http" in (v or "") and "evil" not in v]
    assert "@import" not in text


def test_the_page_can_be_heard(page):
    images = [attributes for tag, attributes in page.elements if tag == "svg"]
    assert images
    assert all(image["role"] == "img" and image["aria-label"] for image in images)
    assert all(attributes.get("scope") for tag, attributes in page.elements if tag == "th")
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = {attributes["href"][1:] for tag, attributes in page.elements if tag == "use"}
    assert used <= set(ids)


def test_markdown_and_page_show_the_same_tables(files, page):
    twin = [(plain(title), rows) for title, rows in markdown_tables(files.markdown.read_text("utf-8")) if rows]
    assert [title for title, _ in twin] == [title for title, _ in page.tables]
    for (title, written), (_, shown) in zip(twin, page.tables, strict=True):
        assert [[plain(cell) for cell in row if cell] for row in written] == shown, title


def test_markdown_tables_keep_their_width_and_figures_exist(files):
    text = files.markdown.read_text(encoding="utf-8")
    for _, rows in markdown_tables(text):
        assert len({len(row) for row in rows}) <= 1
    linked = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert sorted(linked) == sorted(f"figures/{path.name}" for path in files.figures)
    with Image.open(files.figures[0]) as image:
        assert image.format == "PNG"


def test_hostile_names_stay_text(files, page):
    assert HOSTILE[0] in page.text
    assert "ValueError: a | b <b>bold</b> second line" in page.text
    markdown = files.markdown.read_text(encoding="utf-8")
    assert "<script" not in markdown
    assert "<b>" not in markdown
    assert not re.search(r"(?<!\\)\]\(http", markdown)


def test_the_same_records_give_the_same_bytes(tmp_path):
    records = [
        record for record in everything({"cifar100": 20}, SEEDS[:2]) if record["experiment"] == "order-robustness"
    ]
    first, second = write_report(typed(records), tmp_path / "1"), write_report(typed(records[::-1]), tmp_path / "2")
    assert first.html.read_bytes() == second.html.read_bytes()
    assert first.markdown.read_bytes() == second.markdown.read_bytes()
    assert [path.read_bytes() for path in first.figures] == [path.read_bytes() for path in second.figures]


def test_matplotlib_is_left_as_it_was(tmp_path):
    before = dict(mpl.rcParams)
    write_report(typed(SMALL), tmp_path)
    assert dict(mpl.rcParams) == before
    assert not _pylab_helpers.Gcf.figs


@pytest.mark.parametrize(
    "more",
    [{"edges": []}, {"edges": [[0, 2]], "positions": [[0, 0], [1, 0], [0, 1]]}, {"edges": [[0, 2], [1, 2]] * 7}],
    ids=["one circle", "places given", "matrix"],
)
def test_graphs_of_all_forms_are_drawn(more, tmp_path):
    graph = {
        "kind": "graph",
        "run": "1",
        "learner": "gddsg",
        "experiment": "x",
        "dataset": "y",
        "classes": ["a", "b", "c"],
        "group_of_class": [0, 0, 1],
    }
    files = write_report(typed([{**graph, **more}]), tmp_path)
    assert [path.name for path in files.figures] == ["experiment-1-graph-1.png"]
    assert "3 classes in 2 groups" in files.html.read_text(encoding="utf-8")


def test_runs_on_all_classes_at_once_join_the_streams_they_bound(page):
    names = [row[0] for row in page.named("Results: CIFAR-100, efficientnet-lite0, 10 tasks of 2")]
    assert names[-2:] == ["Not incremental: learns all classes at once", "joint"]


def test_a_folder_that_cannot_be_made_is_an_error_that_helps(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "folder", tmp_path / "file", tmp_path / "a\0b", tmp_path / ("x" * 300)):
        with pytest.raises(DataError, match="cannot be written there"):
            write_report(typed(SMALL[:1]), folder)


def test_a_learner_once_by_task_and_once_on_all_classes_is_not_compared_by_position(tmp_path):
    once = small("gddsg", "seed 1", (60, 70, 80), sizes=[3], class_accuracies=[[60, 70, 80]], incremental=False)
    rows = {row[0]: row[1:] for row in page_of([*SMALL[1:4], once], tmp_path).named("Class orders")}
    assert rows["gddsg"][0] == "2"
    assert "20.00" not in rows["gddsg"]


def test_a_graph_that_no_screen_can_show_is_left_out(tmp_path, monkeypatch):
    graph = {"kind": "graph", "run": "1", "learner": "gddsg", "experiment": "distances", "dataset": "y"}
    large = {**graph, "classes": [f"c{k}" for k in range(4)], "group_of_class": [0] * 4}
    assert write_report(typed([large]), tmp_path).figures
    monkeypatch.setattr("gddsg.report.benchmark.maps._MOST_CLASSES", 3)
    files = write_report(typed([large]), tmp_path)
    assert not files.figures
    assert "Look-alikes and groups" in files.markdown.read_text(encoding="utf-8")
