"""Two sources of variance kept apart, the default against every peer, and what the first screen says."""

import pytest
from tests.report.benchmark.synthetic import stream, typed
from tests.report.benchmark.test_benchmark_report import Page, markdown_tables, page_of, small

from gddsg.report.benchmark import write_report
from gddsg.report.benchmark.records import sorted_records
from gddsg.report.benchmark.summary import compare, contests

ORDERS = ("seed 1", "seed 2")
NOTE = "Run in one order, since what it has learnt in the end is the same in every order"
DOGS = "Stanford Dogs was drawn from ImageNet"


def final(learner, accuracies, order="seed 1", seed=0, **more):
    """A run whose id tells seeds apart."""
    name = more.pop("name", learner)
    record = small(learner, order, accuracies, seed=seed, **more)
    return {**record, "learner": name, "run": f"{record['run']} {name} {seed}"}


def by_learner(records, folder, title="Results"):
    return {row[0]: row[1:] for row in page_of(records, folder).named(title)}


def summary(records, folder):
    text = write_report(typed(records), folder).markdown.read_text(encoding="utf-8").replace("\\_", "_")
    part = text.split("## Summary")[1].split("<a id")[0].strip()
    return [line.removeprefix("- ") for line in part.splitlines() if line]


RANPAC = ((60, 66, 72), (60, 60, 72))
SEEDED = (
    *(final("gddsg", (60, 70, 80), order) for order in ORDERS),
    *(final("gddsg", (60, 70, 80 + 6 * seed), seed=seed) for seed in (1, 2)),
    *(final("ranpac", accuracies, order) for order, accuracies in zip(ORDERS, RANPAC, strict=True)),
)


def test_seeds_have_an_interval_of_their_own(tmp_path):
    rows = by_learner(SEEDED, tmp_path)
    assert rows["Learner"][:3] == ["AN\u00a0↑", "± seeds", "FN\u00a0↓"]
    # 70, 72 and 74 over seeds: standard error 2 / √3, 97.5 % quantile of t with two degrees of freedom 4.303
    assert rows["gddsg"][:2] == ["70.00 ± 0.00", "± 4.97"]
    assert rows["ranpac"][:2] == ["65.00 ± 12.71", "–"]
    text = page_of(SEEDED, tmp_path).text
    assert text.count("± seeds is half of the 95 % interval") == 1
    assert NOTE not in text


def test_without_seeds_there_is_no_column_for_them(tmp_path):
    unseeded = [record for record in SEEDED if record["seed"] == 0]
    assert by_learner(unseeded, tmp_path)["Learner"] == ["AN\u00a0↑", "FN\u00a0↓"]


def test_seeds_change_nothing_but_their_own_column(tmp_path):
    """Every other table, every sentence on orders and every figure is of the first seed."""
    with_seeds = write_report(typed(SEEDED), tmp_path / "1")
    without = write_report(typed([record for record in SEEDED if record["seed"] == 0]), tmp_path / "2")
    assert [path.read_bytes() for path in with_seeds.figures] == [path.read_bytes() for path in without.figures]
    tables = [dict(markdown_tables(files.markdown.read_text("utf-8"))) for files in (with_seeds, without)]
    assert list(tables[0]) == list(tables[1])
    others = [title for title, rows in tables[0].items() if rows and "± seeds" not in rows[0]]
    assert len(others) > 2
    assert [tables[0][title] for title in others] == [tables[1][title] for title in others]


def test_the_overview_shows_both_intervals(tmp_path):
    records = [{**record, "dataset": name, "run": record["run"] + name} for record in SEEDED for name in ("a", "b")]
    rows = by_learner(records, tmp_path, "Overview")
    assert rows["Learner"][:3] == ["a AN\u00a0↑", "a ± seeds", "a FN\u00a0↓"]
    assert rows["gddsg"][3:5] == ["70.00 ± 0.00", "± 4.97"]


def test_the_first_seed_is_that_of_most_orders_and_then_the_smallest():
    runs = [final("gddsg", (60, 70, 80), "seed 1", seed) for seed in (3, 11)]
    (contest,) = contests(sorted_records(typed(runs)).streams)
    assert [stream.seed for stream in contest.entries[0].streams] == ["3"]
    runs.append(final("gddsg", (60, 70, 80), "seed 2", 11))
    (contest,) = contests(sorted_records(typed(runs)).streams)
    assert {stream.seed for stream in contest.entries[0].streams} == {"11"}


def test_learners_of_other_first_seeds_are_compared_order_by_order():
    runs = [final("gddsg", (60, 70, 80), seed=1), final("ranpac", (60, 66, 72), seed=2)]
    (contest,) = contests(sorted_records(typed(runs)).streams)
    assert compare(*contest.entries).difference == pytest.approx(4)


ONCE = final("slda", (60, 60, 60), order_invariant=True)


def test_one_order_that_stands_for_all_is_marked(tmp_path):
    rows = by_learner([*SEEDED, ONCE], tmp_path)
    assert rows["slda"] == ["60.00 ± 0.00†", "–", "12.00"]  # what was forgotten on the way depends on the order
    files = write_report(typed([*SEEDED, ONCE]), tmp_path)
    for path in (files.html, files.markdown):
        text = path.read_text("utf-8")
        table = text.index("Results: ")
        assert table < text.index(f"† {NOTE}") < text.index("Class orders and cost")


def test_with_one_data_set_the_table_of_peers_comes_after_the_results(tmp_path):
    titles = [title.partition(":")[0] for title, _ in page_of(SEEDED, tmp_path).tables]
    against = "gddsg against every peer at its best"
    assert titles == ["Results", "Class orders and cost", against, "Paired comparison with gddsg"]


def test_orders_that_were_run_are_not_taken_on_trust(tmp_path):
    """Records of more orders, left from before one was enough, have the interval that was measured."""
    rows = by_learner([*SEEDED, ONCE, final("slda", (60, 60, 63), "seed 2")], tmp_path)
    assert rows["slda"][0] == "60.50 ± 6.35"


MANY = {
    "gddsg": (60, 70, 80),
    "ranpac": (50, 60, 71),
    "klda": (61, 70, 78),
    "slda": (70, 79, 90),
    "icarl": (90, 90, 90),
    "gddsg_paper": (60, 70, 79),
}
PEERS = (
    *(final(name, accuracies) for name, accuracies in MANY.items()),
    final("ranpac", (51, 60, 70.5), name="ranpac on roots"),
    final("slda", (10, 20, 30), name="slda on roots"),
    final("gddsg", (60, 70, 81), name="gddsg, wide"),
    final("discriminant", (60, 70, 78)),
)


def test_the_default_stands_against_the_best_row_of_every_peer(tmp_path):
    rows = page_of(PEERS, tmp_path).named("gddsg against every peer")
    assert rows[0] == ["Peer", "Best row", "AN", "Lead of gddsg", "95 % interval over classes", "gddsg is"]
    assert rows[1:] == [
        ["CIFAR-100"],
        # by class -10, -9 and -10: mean -9.67, standard error 1 / 3
        ["slda", "slda", "79.67", "−9.67", "−11.10 to −8.23", "below"],
        ["klda", "klda", "69.67", "+0.33", "−3.46 to +4.13", "not told apart"],
        ["ranpac", "ranpac on roots", "60.50", "+9.50", "+8.26 to +10.74", "above"],
        ["CIFAR-100 – Keeps exemplars: samples of old classes are stored"],
        ["icarl", "icarl", "90.00", "−20.00", "−44.84 to +4.84", "not told apart"],
    ]


def test_the_table_of_peers_comes_right_after_the_overview(tmp_path):
    records = [{**record, "dataset": name, "run": record["run"] + name} for record in PEERS for name in ("a", "b")]
    page = page_of(records, tmp_path)
    assert [title for title, _ in page.tables[:2]] == ["Overview", "gddsg against every peer at its best"]
    assert [row for row in page.tables[1][1] if len(row) == 1 and "–" not in row[0]] == [["a"], ["b"]]


def test_without_a_default_or_a_peer_there_is_no_table_of_peers(tmp_path):
    for names in (("ranpac", "klda"), ("gddsg", "discriminant", "gddsg_paper")):
        text = page_of([record for record in PEERS if record["learner"] in names], tmp_path).text
        assert "against every peer" not in text


def test_the_runner_up_is_a_peer(tmp_path):
    chosen = [record for record in PEERS if record["method"] != "slda"]
    (text,) = (line for line in summary(chosen, tmp_path) if line.startswith("CIFAR-100"))
    assert "gddsg is best of 4 learners that keep to the rules, variants of our own aside, with A_N = 70.00" in text
    assert "before klda with 69.67" in text
    (text,) = (line for line in summary(PEERS, tmp_path) if line.startswith("CIFAR-100"))
    assert "slda is best of 6 learners" in text
    assert "before gddsg with 70.00" in text


def test_variants_are_compared_where_nobody_else_was_run(tmp_path):
    own = [record for record in PEERS if record["learner"] in ("gddsg", "gddsg_paper")]
    assert any("gddsg is best of 2 learners" in line for line in summary(own, tmp_path))


def test_the_first_screen_says_what_does_the_work_and_what_groups_add(tmp_path):
    first, second, third, *_ = summary(PEERS, tmp_path)
    assert first == (
        "The discriminant does the work: alone, without groups, it has A_N = 69.33 on CIFAR-100, where gddsg has 70.00."
    )
    # by class 0, 0 and 2: mean 0.67, standard error 2 / 3
    assert second.startswith("What groups add to it, A_N of gddsg less that of the discriminant alone: +0.67 points on")
    assert "CIFAR-100 (95 % interval over classes −2.20 to +3.54)" in second
    assert "runs of" in third  # no peer was run on roots, as far as the records tell


def test_a_discriminant_far_behind_does_not_do_the_work(tmp_path):
    records = [*PEERS[:1], final("discriminant", (40, 50, 60))]
    assert summary(records, tmp_path)[0].startswith("The discriminant is a part of it")


def viewed(width, *names):
    wide = {} if width is None else {"projection_dim": width}
    return [
        final(name, (50, 60, 70), name=f"{name} {view}", parameters={**wide, "view": view})
        for name in names
        for view in ("raw", "root")
    ]


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (viewed(10_000, "ranpac") + viewed(None, "slda"), "at the width its authors recommend, on features as they"),
        (
            viewed(10_000, "ranpac") + viewed(2000, "loranpac"),
            "at the width its authors recommend (loranpac at another), on features",
        ),
        (viewed(2000, "ranpac"), "at the widths that its rows name, on features"),
        (viewed(2000, "some peer"), "at the widths that its rows name, on features"),
        ([*viewed(5000, "klda"), final("fecam", (1, 2, 3))], "and on their square root (fecam on one of them); of its"),
    ],
)
def test_the_first_screen_says_how_peers_were_run(records, said, tmp_path):
    first, *others = summary([PEERS[0], *records], tmp_path)
    assert first.startswith("Each peer was run ")
    assert said in first
    assert "runs of" in others[0]


@pytest.mark.parametrize("dataset", ["dogs", "stanford-dogs", "Stanford Dogs"])
def test_a_data_set_that_is_not_new_to_the_network_is_noted_once_a_section(dataset, tmp_path):
    records = [
        stream("gddsg", dataset=name, experiment=experiment, n_classes=20)
        for name, experiment in ((dataset, "main-table"), ("cub200", "main-table"), (dataset, "x"), ("cub200", "y"))
    ]
    text = write_report(typed(records), tmp_path).markdown.read_text("utf-8")
    sections = {part.splitlines()[0]: part.count(DOGS) for part in text.split("\n## ")[1:]}
    about = {"How to read this report": 0, "What it was made of": 0}
    assert sections == {"Summary": 1, "Main results": 1, "x": 1, "y": 0, **about}


def test_a_learner_without_calibration_has_a_dash(tmp_path):
    records = [final("gddsg", (60, 70, 80)), final("ranpac", (60, 66, 72))]
    records[0]["metrics"] = {**records[0]["metrics"], "ECE": 4.0}
    page = page_of(records, tmp_path)
    rows = {row[0]: row[-1] for row in page.named("Results")}
    assert (rows["Learner"], rows["gddsg"], rows["ranpac"]) == ("ECE\u00a0↓", "4.00", "–")
    assert "A dash there is a learner whose method gives scores and no probabilities" in page.text


def test_notes_can_be_read_on_the_page(tmp_path):
    files = write_report(typed([*SEEDED, ONCE]), tmp_path)
    page = Page(files.html.read_text("utf-8"))
    assert [attributes["class"] for tag, attributes in page.elements if tag == "p" and "class" in attributes] == [
        "note",
        "note",
        "note",
    ]


def test_curves_show_the_best_row_of_a_peer_that_has_a_curve(tmp_path):
    """With a row for every width and view, the legend would be taller than the drawing."""
    last = {"class_accuracies": [[80.0, 80.0, 80.0]]}
    records = [
        final("gddsg", (60, 70, 80)),
        final("gddsg", (60, 60, 60), name="gddsg on plain features"),
        final("slda", (50, 50, 50)),
        final("slda", (55, 55, 55), name="slda on roots"),
        final("slda", (80, 80, 80), name="slda, at the end", **last),
        final("ranpac", (80, 80, 80), **last),
    ]
    text = write_report(typed(records), tmp_path).markdown.read_text(encoding="utf-8")
    (ends,) = (line for line in text.splitlines() if line.startswith("![Mean accuracy of classes seen"))
    shown = ends.split("In the end: ")[1].split(".]")[0]
    assert shown == "gddsg 70.0; gddsg on plain features 60.0; slda on roots 55.0"
