"""Tables of measurements: sums and maxima over runs, one part a data set."""

from dataclasses import replace

import pytest
from tests.report.benchmark.synthetic import HOSTILE
from tests.report.benchmark.test_benchmark_report import markdown_tables

from gddsg.bench import Head, Record
from gddsg.bench.findings import GraphFindings, InvarianceFindings, MemoryFindings, SplitFindings, TrustFindings
from gddsg.report.benchmark import write_report

SAME = InvarianceFindings(100, 10, 1000, 0, 0, 0.0, 0, 0.0, 0, 0.0)


def record(found, kind, number=0, **more):
    head = Head(kind, f"{kind} {number}", kind, "cifar100", "gddsg", order=f"seed {number}", revision="abc1234")
    return Record(replace(head, **more), found)


def tables(records, folder):
    text = write_report(records, folder).markdown.read_text(encoding="utf-8")
    return dict(markdown_tables(text)), text


def test_invariance_is_the_worst_of_all_runs(tmp_path):
    other = replace(SAME, tasks=100, cards_that_differ=2, labels_that_differ=3, probability_gap=0.25)
    third = replace(other, probability_gap=0.5, forget_probability_gap=1e-9, merge_cards_that_differ=1)
    runs = [record(one, "invariance", k % 2) for k, one in enumerate((SAME, other))]
    runs.append(record(third, "invariance", 1, run="another"))
    runs.append(record(SAME, "invariance", dataset="cub200", run="elsewhere"))
    found, text = tables(runs, tmp_path)
    assert found["Invariance"][1:] == [
        ["CIFAR-100", *[""] * 10],
        ["gddsg", "3", "2", "10, 100", "4", "6", "5.0e-01", "0", "1.0e-09", "1", "0"],
        ["CUB-200", *[""] * 10],
        ["gddsg", "1", "1", "10", "0", "0", "0", "0", "0", "0", "0"],
    ]
    assert "4 measurements on CIFAR-100 and CUB-200, and no stream of tasks." in text
    assert "abc1234" in text


def test_batches_come_in_the_order_of_their_number(tmp_path):
    runs = [record(SplitFindings(parts, 75.0, 75.0 + parts / 100), "split", parts) for parts in (50, 4)]
    found, _ = tables(runs, tmp_path)
    assert found["Classes in several batches"][2:] == [
        ["gddsg", "4", "75.04", "75.00", "+0.04"],
        ["gddsg", "50", "75.50", "75.00", "+0.50"],
    ]


def test_trust_and_memory(tmp_path):
    trust = TrustFindings(0.05, 0.7912, {"0.9": 0.905, "0.99": 0.995}, {"0.9": 0.91})
    found, _ = tables([record(trust, "trust"), record(MemoryFindings(100, 10, 92.25, 400, 1011), "memory")], tmp_path)
    assert found["Calibration and rejection"][0][4:] == [
        *("Kept at 0.9", "Kept at 0.99", "Kept at 0.9, half", "Kept at 0.99, half")
    ]
    assert found["Calibration and rejection"][2] == [
        *("gddsg", "seed 0", "0.050", "0.791", "0.905", "0.995", "0.910", "–")
    ]
    assert found["Model file and memory"][2] == ["gddsg", "100", "10", "92.2", "922.5", "400", "1011"]


def test_graphs_by_distance(tmp_path):
    graphs = [
        record(GraphFindings(("a", "b", "c"), groups, edges), "graph", k, experiment="distances", learner=name)
        for k, (name, groups, edges) in enumerate(
            [("euclidean", (0, 1, 2), ((0, 1), (0, 2), (1, 2))), ("cosine", (0, 1, 0), ((0, 1),))]
        )
    ]
    found, text = tables(graphs, tmp_path)
    assert found["Look-alikes and groups"][2:] == [
        ["cosine", "3", "33.3", "2", "2"],
        ["euclidean", "3", "100.0", "3", "1"],
    ]
    assert "in 3 groups, euclidean" in text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name, tmp_path):
    names = {"learner": name, "dataset": name, "experiment": name}
    trust = TrustFindings(0.05, 0.8, {name: 0.9}, {name: 0.9})
    found, text = tables(
        [record(SplitFindings(2, 1.0, 2.0), "split", **names), record(trust, "trust", **names)], tmp_path
    )
    assert all(len({len(row) for row in rows}) == 1 for rows in found.values())
    assert "<script" not in text
    assert "<img" not in text


def test_no_calibration_error_is_a_dash(tmp_path):
    found, _ = tables([record(TrustFindings(None, 0.8, {"0.9": 0.9}, {"0.9": 0.9}), "trust")], tmp_path)
    assert found["Calibration and rejection"][2][2:4] == ["–", "0.800"]
