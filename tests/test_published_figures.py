"""Figures in the documentation are those of stored records, and the stored report is made of stored records."""

import json
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from statistics import median

import pytest
from tests.attack.every import ATTACKS, table_line

from gddsg.bench import read_records
from gddsg.report.benchmark import write_report

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "experiments" / "records"
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
    found = {(r.head.learner, r.head.dataset): r for r in records if metric in r.found.metrics}
    rows = table("docs/honesty.md", heading)
    assert set(rows) == {learner for learner, _ in found}
    for learner, (protocol, *shown) in rows.items():
        runs = [found[learner, dataset] for dataset in DATASETS]
        assert {run.head.protocol for run in runs} == {protocol.removesuffix(", leaks")}
        assert {bool(run.head.leaks) for run in runs} == {protocol.endswith(", leaks")}
        assert shown == [f"{run.found.metrics[metric]:.1f}" for run in runs]


def recorded(experiment, learner, dataset):
    """What the first class order of an experiment gave; the README's tables are of that one."""
    path = RECORDS / f"{experiment}.jsonl"
    if not path.exists():
        pytest.skip(f"experiments/{experiment}.toml has not been run yet")
    found = ((record.head, record.found) for record in read_records(path))
    wanted = (learner, dataset, "seed 1993")
    return next(one for head, one in found if (head.learner, head.dataset, head.order) == wanted)


def accuracy(found):
    return f"{found.metrics['A_N']:.1f}"


README_ROWS = {
    "GDDSG": ("main-table", "gddsg", accuracy),
    "the discriminant alone: no graph, groups or heads": ("main-table", "discriminant", accuracy),
    "GDDSG on plain features": ("main-table", "gddsg on plain features", accuracy),
    "AnaCP on square roots": ("main-table", "anacp on roots", accuracy),
    "AnaCP": ("main-table", "anacp", accuracy),
    "LR-RGDA on square roots": ("main-table", "lr_rgda on roots", accuracy),
    "LR-RGDA": ("main-table", "lr_rgda", accuracy),
    "RanPAC, phase 2, on square roots": ("main-table", "ranpac on roots", accuracy),
    "RanPAC, phase 2": ("main-table", "ranpac", accuracy),
    "SimpleCIL": ("main-table", "simplecil", accuracy),
    "calibration error of GDDSG (15 bins)": ("trust", "gddsg", lambda found: f"{found.ece:.3f}"),
    "half of the classes unseen: AUROC known against unknown": (
        "trust",
        "gddsg",
        lambda found: f"{found.auroc_unknown:.2f}",
    ),
    "share of known inputs kept when asked for 0.99": ("trust", "gddsg", lambda found: f"{found.kept['0.99']:.3f}"),
}


def test_the_readme_has_no_row_without_a_record():
    assert set(table("README.md", "Figures")) == set(README_ROWS)


@pytest.mark.parametrize("name", README_ROWS)
def test_the_readme_shows_what_was_recorded(name):
    experiment, learner, shown = README_ROWS[name]
    expected = [shown(recorded(experiment, learner, dataset)) for dataset in DATASETS]
    assert table("README.md", "Figures")[name] == expected


def test_the_readme_shows_wide_projections_as_recorded():
    wide = [recorded("main-table", "gddsg, 10000 wide", dataset).metrics["A_N"] for dataset in DATASETS]
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"at M = 10 000 it has {', '.join(f'{one:.2f}' for one in wide)}." in text


def test_the_readme_shows_what_split_classes_cost():
    lost = {dataset: [] for dataset in DATASETS}
    for record in sorted(read_records(RECORDS / "split.jsonl"), key=lambda record: record.found.parts):
        cost = record.found.A_N_whole - record.found.A_N_split
        lost[record.head.dataset].append(f"{cost:.2f}" if cost > 0 else "nothing")
    cifar100, cub200, dogs = (" and ".join(lost[dataset]) for dataset in DATASETS)
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"costs CIFAR-100 {cifar100} points, CUB-200 {cub200}, and Stanford Dogs {dogs}." in text


def test_the_readme_shows_the_speed_that_was_recorded():
    record = json.loads((ROOT / "benchmarks/records/speed.json").read_text())
    text = " ".join((ROOT / "README.md").read_text().split())
    released = record["released_recipe"]
    seldom, often = (one for one in record["adding_a_class"] if one["dim"] == 1280)
    assert f"takes 1/{released['times_faster']:.0f} of the time of the recipe" in text
    assert f"(1/{released['times_faster_votes_once']:.0f} if its voters" in text
    assert f"reaches {100 * record['throughput']['share']:.0f} % of the machine's GEMM peak" in text
    assert f"takes 1/{seldom['times_faster']:.0f} (classes that are seldom confused) to " in text
    assert f"to 1/{often['times_faster']:.0f} (often confused) of learning all" in text
    assert seldom["newcomers_that_changed_the_metric"] == often["newcomers_that_changed_the_metric"] == 1
    assert seldom["largest_probability_gap"] == often["largest_probability_gap"] == 0
    longer = [f"{one['times_longer']:.1f}" for one in record["growing"]]
    most = max(model["peak_predicting_MiB"] for one in record["growing"] for model in one["models"]) / 1024
    assert f"it takes {longer[0]} to {longer[1]} times as long as among 1000, and {most:.1f} GiB" in text
    ratios = record["answering"]["gddsg_against_ranpac"]
    assert f"one answer takes {ratios['one']:.2f} of the time of RanPAC's" in text
    assert f"an answer in a batch {ratios['row_of_a_batch']:.2f} times as long" in text


def test_the_readme_shows_what_photos_gave():
    lines = (ROOT / "benchmarks/records/photos.jsonl").read_text().splitlines()
    found = {record["dataset"]: record for record in map(json.loads, lines)}
    cifar100, cub200 = (found[name]["A_N"] for name in ("cifar100_small", "cub200_small"))
    text = " ".join((ROOT / "README.md").read_text().split())
    assert cifar100["in_calls"] == cifar100["at_once"]
    assert cub200["in_calls"] == cub200["at_once"]
    assert f"give {cifar100['in_calls']:.1f} % and {cub200['in_calls']:.1f} %," in text
    assert f"RanPAC {cifar100['ranpac']:.1f} % and {cub200['ranpac']:.1f} %," in text
    assert f"nearest mean {cifar100['nearest_mean']:.1f} % and {cub200['nearest_mean']:.1f} %" in text
    shares = sorted(f"{100 * record['embedding']['share']:.0f}" for record in found.values())
    assert f"runs at {shares[0]} to {shares[1]} % of the speed of bare ONNX Runtime" in text


def test_the_page_on_cards_shows_what_coding_costs():
    record = json.loads((ROOT / "benchmarks/records/coding.json").read_text())
    page = (ROOT / "docs/class-cards.md").read_text()
    for one in record["values"]:
        cells = [f"{accuracy:.2f}" for accuracy in one["A_N"].values()]
        assert f"| {one['bits']} | {' | '.join(cells)} |" in page


def test_the_stored_report_is_made_of_the_stored_records(tmp_path):
    records = [record for path in sorted(RECORDS.glob("*.jsonl")) for record in read_records(path)]
    files = write_report(records, tmp_path, "Order-robust class-incremental learning")
    stored = ROOT / "docs/benchmark"
    assert files.markdown.read_text() == (stored / "report.md").read_text()
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        path.name for path in (stored / "figures").iterdir()
    }


def trained_rows():
    """Mean A_N and F_N over class orders of every row of the experiment, as the page shows them."""
    found = {}
    for record in read_records(RECORDS / "trained.jsonl"):
        key = record.head.learner + (", leaks" if record.head.leaks else "")
        found.setdefault(key, {}).setdefault(record.head.dataset, []).append(record.found.metrics)
    return {
        name: [
            f"{sum(one[metric] for one in by_dataset[dataset]) / len(by_dataset[dataset]):.1f}"
            for dataset in ("cifar100_small", "cub200_small")
            for metric in ("A_N", "F_N")
        ]
        for name, by_dataset in found.items()
    }


def test_the_page_on_trained_methods_shows_what_was_recorded():
    assert table("docs/trained.md", "Measured") == trained_rows()


def test_the_page_on_trained_methods_says_what_the_records_say():
    rows = {name: [float(cell) for cell in cells] for name, cells in trained_rows().items()}
    prompts = ("l2p", "dualprompt", "coda_prompt")
    for accuracy, forgetting in ((0, 1), (2, 3)):
        assert max(rows, key=lambda name: rows[name][forgetting]) == "finetune"
        assert all(rows[name][forgetting] < rows["finetune"][forgetting] / 1.5 for name in prompts)
        assert all(rows[name][accuracy] < rows["simplecil"][accuracy] for name in prompts)
        assert rows["gddsg"][accuracy] > rows["simplecil"][accuracy] + 5


def test_the_page_on_trained_methods_shows_the_rate_of_the_loop():
    record = json.loads((ROOT / "benchmarks/records/training.json").read_text())
    text = " ".join((ROOT / "docs/trained.md").read_text().split())
    assert f"takes {record['times_slower']:.2f} times as long as a bare forward and backward loop" in text


def test_the_page_on_serving_shows_what_was_measured():
    record = json.loads((ROOT / "benchmarks/records/serve.json").read_text())
    text, photos = " ".join((ROOT / "docs/serving.md").read_text().split()), record["photos"]
    assert (record["clients"], record["seconds"]) == (32, 60)
    parts = ("photos", "features_one_a_request", "features_64_a_request")
    assert all(record[part]["errors"] == 0 for part in parts)
    assert f"get {photos['requests_a_second']:.0f} answers a second, {100 * record['share_of_bare']:.0f} % of" in text
    assert f"one in a hundred waits longer than {photos['p99_seconds']:.2f} s" in text
    before, after = record["memory_mebibytes"]
    assert f"memory grew by {after - before:.1f} MiB" in text
    single, many = (record[part]["requests_a_second"] for part in parts[1:])
    assert f"{64 * many:.0f} a second in requests of 64, {single:.0f} in requests of one" in text


def test_the_page_on_serving_shows_what_kills_did():
    attacks = json.loads((ROOT / "benchmarks/records/serve-kills.json").read_text())["attacks"]
    text = " ".join((ROOT / "docs/serving.md").read_text().split())
    assert not any(one["faults"] for one in attacks)
    told = sum(one["counts"][kind] for one in attacks for kind in ("teach", "rename", "forget"))
    assert f"killed the service {sum(one['kills'] for one in attacks)} times" in text
    assert f"{told} changes were told as done" in text


@pytest.mark.parametrize(("dataset", "orders"), [("cub200", 12), ("dogs", 12), ("cifar100", 12)])
def test_the_page_on_order_baselines_says_what_the_records_say(dataset, orders):
    found = {}
    for record in read_records(RECORDS / "order-baselines.jsonl"):
        if record.head.dataset == dataset:
            found.setdefault(record.head.learner, {})[record.head.order] = record.found.metrics["A_N"]
    worst = {name: min(by_order.values()) for name, by_order in found.items()}
    best = {name: max(by_order.values()) for name, by_order in found.items()}
    honest = [name for name in found if "task" not in name]
    assert max(honest, key=worst.__getitem__) == "gddsg"
    assert worst["gddsg"] == best["gddsg"]
    for name in ("apd", "apd_fix", "halrp"):
        assert len(found[name]) == len(found["gddsg"]) == orders
        assert worst[f"{name}, task-aware"] > worst["linear probe a task"] - 2
        assert max(best[name], best[f"{name}, energy"]) < worst["simplecil"]
        assert 2 <= round(best[name] - worst[name]) <= 17
        better = found[name]["seed 1993"] < best[f"{name}, energy"]
        assert better == (dataset != "cifar100" or name == "halrp")


def test_the_page_on_reliability_shows_the_last_attack():
    record = json.loads((ROOT / "benchmarks/records/attack.json").read_text())
    page = (ROOT / "docs/reliability.md").read_text()
    assert [row["attack"] for row in record["attacks"]] == list(ATTACKS)
    for row in record["attacks"]:
        assert table_line(row) in page.splitlines()


@pytest.mark.parametrize(
    ("page", "record", "script"),
    [("constants", "constants", "sweep_constants"), ("tried", "graph", "try_graph"), ("tried", "views", "try_views")],
)
def test_a_page_shows_what_its_script_recorded(page, record, script):
    path = ROOT / f"benchmarks/records/{record}.json"
    if not path.exists():
        pytest.skip(f"benchmarks/{script}.py has not been run yet")
    lines = import_module(f"benchmarks.{script}").page_lines(json.loads(path.read_text()))
    assert "\n".join(lines) in (ROOT / f"docs/{page}.md").read_text()


def test_the_page_on_theory_shows_what_was_recorded():
    record = json.loads((ROOT / "benchmarks/records/theory.json").read_text())
    script, page = import_module("benchmarks.theory_page"), (ROOT / "docs/theory.md").read_text()
    for lines in script.page_tables(record).values():
        assert len(lines) > 3
        assert "\n".join(lines) in page
    for sentence in script.page_sentences(record).values():
        assert sentence in " ".join(page.split())
    shown = set(re.findall(r"\(theory/([a-z-]+\.png)\)", page))
    assert shown == {path.name for path in (ROOT / "docs/theory").iterdir()}


def test_the_page_on_photos_shows_what_was_recorded():
    records = [json.loads(line) for line in (ROOT / "benchmarks/records/quality.jsonl").read_text().splitlines()]
    script, page = import_module("benchmarks.bench_quality"), (ROOT / "docs/photos.md").read_text()
    for lines in (script.quality_lines(records), script.shrunk_lines(records)):
        assert len(lines) > 3
        assert "\n".join(lines) in page
    assert script.thumbnail_line(records) in " ".join(page.split())


def test_the_page_on_photos_shows_what_near_copies_did():
    records = [json.loads(line) for line in (ROOT / "benchmarks/records/copies.jsonl").read_text().splitlines()]
    lines, page = import_module("benchmarks.bench_copies").copy_lines(records), (ROOT / "docs/photos.md").read_text()
    assert len(lines) > 3
    assert "\n".join(lines) in page
    shares = [f"{record['in_batches']['same_labels']:.1f} %" for record in records]
    assert f"and {shares[0]} (CUB-200) and {shares[1]} (CIFAR-100) of the" in page
    assert all(record["in_batches"]["same_counts"] == 100 for record in records)


def test_the_page_on_privacy_shows_what_was_recorded():
    record = json.loads((ROOT / "benchmarks/records/privacy.json").read_text())
    script, page = import_module("benchmarks.bench_privacy"), (ROOT / "docs/privacy.md").read_text()
    for lines in (script.accuracy_lines(record), script.ways_lines(record)):
        assert "\n".join(lines) in page
    text, cub, cifar = " ".join(page.split()), record["datasets"]["cub200"], record["datasets"]["cifar100"]
    assert f"{cub['gddsg']:.1f} and {cifar['gddsg']:.1f} % by GDDSG" in text
    assert f"{cub['nearest_mean']:.1f} and {cifar['nearest_mean']:.1f} % by nearest means" in text
    assert f"({cub['median_length']:.1f} and {cifar['median_length']:.1f} here; {record['clip']:g} was used)" in text
    little, more = ([cub["sites"][sites][epsilon]["mean"] for sites in ("1", "5")] for epsilon in ("1", "8"))
    assert (
        f"one place alone is left with {little[0]:.1f} %, five that share the same photos with {little[1]:.1f} %"
        in text
    )
    assert f"at epsilon 8 it is {more[0]:.1f} and {more[1]:.1f} %" in text


def test_the_page_on_scale_shows_what_was_recorded():
    record = json.loads((ROOT / "benchmarks/records/classes.json").read_text())
    lines, page = import_module("benchmarks.bench_classes").class_lines(record), (ROOT / "docs/scale.md").read_text()
    assert len(lines) > 9
    assert "\n".join(lines) in page
    assert f"took five minutes and {record['learning_GB']:.1f} GB at most" in page
    assert 4.5 < record["minutes_to_learn"] < 5.5


def test_the_page_on_scale_shows_what_other_sizes_would_take():
    model, page = import_module("benchmarks.cost_model"), (ROOT / "docs/scale.md").read_text()
    scale, classes = model.records()
    for lines in (model.way_lines(scale), model.photo_lines(scale), model.class_size_lines(classes)):
        assert "\n".join(lines) in page
    text, ratios, (fixed, rate) = " ".join(page.split()), scale["ratios"], model.photo_rate(scale)
    assert f"one worker takes {ratios['ray 1 / local']:.2f} times as long as the local engine" in text
    assert f"Two workers take {ratios['ray 2 / two processes']:.2f} times as long as two plain processes" in text
    assert f"The driver took {scale['driver']['20000']:.0f} MB at most for 20,000 rows" in text
    assert f"and {scale['driver']['200000']:.0f} MB for ten times as many" in text
    started, local = (median(scale["seconds"][way]) for way in ("ray 1 start", "local"))
    assert f"a run takes {fixed:.0f} s whatever the number of photos, {started:.1f} s of them for Ray" in text
    assert f"a photo takes {1000 * rate:.1f} ms of a machine" in text
    assert f"no more than the {1000 * local / scale['photos']:.1f} ms of the local engine" in text


def test_the_page_on_scale_shows_what_was_killed():
    record, killed = json.loads((ROOT / "benchmarks/records/scale-kills.json").read_text()), Counter()
    runs = [run for source in record["sources"] for run in source["runs"]]
    for run in runs:
        killed.update(run["killed"])
    text = " ".join((ROOT / "docs/scale.md").read_text().split())
    assert record["faults"] == 0
    assert (
        f"of {len(runs)} runs on two nodes, in which {killed['driver']} drivers, {killed['node']} nodes and "
        f"{killed['worker']} workers were killed"
    ) in text


def test_the_page_on_training_shows_what_a_first_task_of_half_of_the_classes_gave():
    found = {r.head.learner: r.found.metrics["A_N"] for r in read_records(RECORDS / "trained-half.jsonl")}
    text = " ".join((ROOT / "docs/trained.md").read_text().split())
    frozen, by_adam = found["simplecil"], (found["adam, ssf, Adam"], found["adam, adapter, Adam"])
    published = found["adam, ssf"], found["adam, adapter"]
    assert f"SimpleCIL ends at {frozen:.2f}, scale and shift end at {published[0]:.2f}" in text
    assert f"and an adapter at {published[1]:.2f}; moved farther" in text
    assert f"by Adam, at {by_adam[0]:.2f} and {by_adam[1]:.2f}" in text
