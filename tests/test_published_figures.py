"""Figures in the documentation are those of stored records, and the stored report is made of stored records."""

import json
import re
from pathlib import Path

import pytest

from gddsg.bench import read_records
from gddsg.report.benchmark import write_report

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "experiments" / "records"
FEATURES = [json.loads(line) for line in (ROOT / "benchmarks/records/features.jsonl").read_text().splitlines()]
DATASETS = ("cifar100", "cub200", "dogs")


def table(page, heading):
    """Cells by first cell of the first table below a heading."""
    text = (ROOT / page).read_text().split(f"\n## {heading}\n")[1]
    lines = re.search(r"^\|.*\n\|[-|: ]+\n((?:\|.*\n)+)", text, re.MULTILINE)[1].splitlines()
    rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
    return {name: cells for name, *cells in rows}


@pytest.mark.parametrize(("heading", "metric"), [("Accuracy", "A_N"), ("Groups identified", "group_accuracy")])
def test_the_page_on_honesty_shows_what_was_recorded(heading, metric):
    records = read_records(RECORDS / "honesty.jsonl")
    found = {(r["learner"], r["dataset"]): r for r in records if metric in r["metrics"]}
    rows = table("docs/honesty.md", heading)
    assert set(rows) == {learner for learner, _ in found}
    for learner, (protocol, *shown) in rows.items():
        runs = [found[learner, dataset] for dataset in DATASETS]
        assert {run["protocol"] for run in runs} == {protocol.removesuffix(", leaks")}
        assert {run["leaks"] for run in runs} == {protocol.endswith(", leaks")}
        assert shown == [f"{run['metrics'][metric]:.1f}" for run in runs]


def of_features(experiment, dataset):
    return next(record for record in FEATURES if (record["experiment"], record["dataset"]) == (experiment, dataset))


README_ROWS = {
    "GDDSG": ("accuracy", lambda record: f"{record['A_N']['gddsg']:.1f}"),
    "GDDSG, hard decision as in the paper": ("accuracy", lambda record: f"{record['A_N']['gddsg, hard decision']:.1f}"),
    "RanPAC, phase 2": ("accuracy", lambda record: f"{record['A_N']['ranpac']:.1f}"),
    "SimpleCIL": ("accuracy", lambda record: f"{record['A_N']['simplecil']:.1f}"),
    "calibration error of GDDSG (15 bins)": ("trust", lambda record: f"{record['ece']:.3f}"),
    "half of the classes unseen: AUROC known against unknown": (
        "trust",
        lambda record: f"{record['auroc_unknown']:.2f}",
    ),
    "share of known inputs kept when asked for 0.99": ("trust", lambda record: f"{record['kept_share']['0.99']:.3f}"),
}


def test_the_readme_shows_what_was_recorded():
    rows = table("README.md", "Figures")
    assert set(rows) == set(README_ROWS)
    for name, (experiment, shown) in README_ROWS.items():
        assert rows[name] == [shown(of_features(experiment, dataset)) for dataset in DATASETS], name


def test_the_stored_report_is_made_of_the_stored_records(tmp_path):
    records = [record for path in sorted(RECORDS.glob("*.jsonl")) for record in read_records(path)]
    files = write_report(records, tmp_path, "Order-robust class-incremental learning")
    stored = ROOT / "docs/benchmark"
    assert files.markdown.read_text() == (stored / "report.md").read_text()
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        path.name for path in (stored / "figures").iterdir()
    }
