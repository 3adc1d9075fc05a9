"""Measurements beside accuracy: what an honest learner gives, and what one that cheats cannot hide."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from gddsg import GDDSG, SimpleCIL
from gddsg.bench import experiment_from, read_records, run_experiment
from gddsg.bench.findings import InvarianceFindings, MemoryFindings, SplitFindings, TrustFindings
from gddsg.bench.measurements import Setting, measure_invariance, measure_split, measure_trust
from gddsg.cli import app
from gddsg.data import class_stream, feature_file, seeded_order, task_sizes
from gddsg.errors import DataError, InputError
from gddsg.evaluation import average_accuracy

SMALL = {"name": "gddsg", "parameters": {"projection_dim": 32, "rank": 8}}


def gddsg():
    return GDDSG(projection_dim=32, rank=8)


@pytest.fixture(scope="module")
def data(root):
    return feature_file(root / "circles_efficientnet-lite0.npz")


def setting(data, new=gddsg, parts=4, n_tasks=3):
    stream = class_stream(data, seeded_order(tuple(range(12)), 1993), task_sizes(12, n_tasks))
    return Setting(new, lambda: new().partial_fit(data.train_features, data.train_labels), data, stream, parts, 0)


def run(kind, root, out, **more):
    table = {"datasets": ["circles"], "learners": [SMALL], "kinds": [kind], "tasks": 3, **more}
    report = run_experiment(experiment_from(kind, table), out, root, workers=0)
    records = read_records(out)
    assert report.failed == 0, [record.error for record in records]
    return [record.found for record in records]


def test_a_model_of_cards_does_not_depend_on_the_order(root, tmp_path):
    found = run("invariance", root, tmp_path / "records.jsonl", orders=2, lengths=[1, 5, 100])
    assert [(one.classes, one.tasks) for one in found] == [(12, 12)] * 2 + [(12, 3)] * 2 + [(12, 1)] * 2
    for one in found:
        assert isinstance(one, InvarianceFindings)
        assert (one.cards_that_differ, one.labels_that_differ, one.probability_gap) == (0, 0, 0.0)
        assert (one.forget_cards_that_differ, one.forget_probability_gap) == (0, 0.0)
        assert (one.merge_cards_that_differ, one.merge_probability_gap) == (0, 0.0)


class Late(GDDSG):
    """Adds to the features what it has seen before: it depends on the order."""

    def partial_fit(self, X, y, classes=None, sample_ids=None):
        shift = 0.5 * len(getattr(self, "classes_", ()))
        return super().partial_fit(np.asarray(X) + np.float32(shift), y)


class Stubborn(GDDSG):
    """Forgets nothing."""

    def forget(self, label):
        return self


def test_a_model_that_depends_on_the_order_is_found_out(data):
    found = measure_invariance(setting(data, lambda: Late(projection_dim=32, rank=8)))
    assert found.cards_that_differ == 8  # those of the second and third task
    assert found.labels_that_differ > 0
    assert found.probability_gap > 0.01


def test_a_model_that_forgets_nothing_is_found_out(data):
    found = measure_invariance(setting(data, lambda: Stubborn(projection_dim=32, rank=8)))
    assert found.forget_cards_that_differ == 1
    assert found.forget_probability_gap == 1.0
    assert found.probability_gap == 0.0


def test_classes_in_several_batches(root, tmp_path, data):
    four, many = run("split", root, tmp_path / "records.jsonl", parts=[4, 1000])
    whole = 100 * average_accuracy(
        data.test_labels, gddsg().fit(data.train_features, data.train_labels).predict(data.test_features)
    )
    assert isinstance(four, SplitFindings)
    assert (four.parts, many.parts) == (4, 1000)  # more than any class has samples
    assert four.A_N_whole == many.A_N_whole == pytest.approx(whole, abs=1e-3)
    assert abs(four.A_N_split - four.A_N_whole) < 5


def test_every_batch_has_its_share_of_every_class(data):
    seen = []

    class Spy(SimpleCIL):
        def partial_fit(self, X, y, classes=None):
            seen.append(np.bincount(y, minlength=12))
            return super().partial_fit(X, y)

    measure_split(setting(data, Spy, parts=4))
    parts = [counts for counts in seen if counts.sum() < len(data.train_labels)]
    assert len(parts) == 4
    assert np.ptp(parts, axis=0).max() <= 1
    assert (np.sum(parts, axis=0) == np.bincount(data.train_labels)).all()


def test_trust_leaves_calibration_out_where_the_scale_of_scores_is_not_the_methods_own(data):
    class Uncalibrated(GDDSG):
        calibrated = False

    found = measure_trust(setting(data, lambda: Uncalibrated(projection_dim=64)))
    assert found.ece is None
    assert str(found).startswith("AUROC")


def test_trust(root, tmp_path, data):
    (found,) = run("trust", root, tmp_path / "records.jsonl")
    assert isinstance(found, TrustFindings)
    assert 0 <= found.ece < 0.5
    assert found.auroc_unknown > 0.6
    assert list(found.kept) == list(found.kept_half) == ["0.9", "0.95", "0.99"]
    model = gddsg().fit(data.train_features, data.train_labels)
    kept = np.mean(model.predict(data.test_features, reject=0.9, unknown=-1) != -1)
    assert found.kept["0.9"] == pytest.approx(kept, abs=1e-4)


def test_names_of_classes_may_be_text(data):
    def text(labels):
        return np.array([data.classes[label] for label in labels])

    named = replace(data, train_labels=text(data.train_labels), test_labels=text(data.test_labels))
    stream = class_stream(named, seeded_order(data.classes, 1993), task_sizes(12, 3))

    def whole():
        return gddsg().partial_fit(named.train_features, named.train_labels)

    mine = Setting(gddsg, whole, named, stream, 4, 0)
    assert measure_trust(mine) == measure_trust(setting(data))
    assert measure_split(mine) == measure_split(setting(data))
    assert measure_invariance(mine) == measure_invariance(setting(data))


def test_trust_needs_two_classes(data):
    one = class_stream(data, (3,), (1,))
    with pytest.raises(InputError, match="two or more"):
        measure_trust(Setting(gddsg, gddsg, data, one, 1, 0))


def test_memory_is_that_of_a_fresh_process(root, tmp_path, data):
    (found,) = run("memory", root, tmp_path / "records.jsonl")
    assert isinstance(found, MemoryFindings)
    assert (found.classes, found.tasks) == (12, 3)
    assert 0 < found.loaded_mebibytes <= found.peak_mebibytes
    model = gddsg().fit(data.train_features, data.train_labels)
    model.save(tmp_path / "model.gddsg")
    assert found.file_megabytes == pytest.approx((tmp_path / "model.gddsg").stat().st_size / 1e6, rel=0.2)


@pytest.mark.parametrize(("kind", "lacks"), [("invariance", "cards_"), ("trust", "novelty"), ("memory", "save")])
def test_learners_that_lack_what_is_measured_are_told_so(kind, lacks, root, tmp_path):
    table = {"datasets": ["circles"], "learners": ["simplecil"], "kinds": [kind], "tasks": 3}
    run_experiment(experiment_from(kind, table), tmp_path / "records.jsonl", root, workers=0)
    (record,) = read_records(tmp_path / "records.jsonl")
    assert record.error.startswith(f"InputError: The measurement '{kind}' was given a SimpleCIL, which has no {lacks}")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"blur": 0.5}, "blur = 0.5"),
        ({"imbalance": 10}, "imbalance = 10"),
        ({"parts": [0]}, r"parts = \[0\]"),
        ({"lengths": "all"}, "lengths = 'all'"),
        ({"lengths": [2], "base": 4}, "base = 4"),
        ({"learners": [{"name": "gddsg", "protocol": "oracle-group"}]}, "a protocol for 'gddsg'"),
    ],
)
def test_what_does_not_go_together_is_refused(more, message):
    with pytest.raises(DataError, match=message):
        experiment_from("wrong", {"datasets": ["a"], "kinds": ["trust"], "learners": ["gddsg"], **more})


def test_from_the_command_line_to_the_report(root, tmp_path):
    file = tmp_path / "all.toml"
    file.write_text(
        'datasets = ["circles"]\nkinds = ["stream", "invariance", "split", "trust", "memory"]\ntasks = 3\nparts = 2\n'
        'learners = [{ name = "gddsg", parameters = { projection_dim = 32, rank = 8 } }]\n'
    )
    done = CliRunner().invoke(app, ["bench", "run", str(file), "--data", str(root), "--workers", "0"])
    assert done.exit_code == 0, done.output
    assert "0 cards and 0 labels differ" in done.output
    records = tmp_path / "records" / "all.jsonl"
    made = CliRunner().invoke(app, ["bench", "report", str(records), "--html", str(tmp_path / "page")])
    assert made.exit_code == 0, made.output
    text = (tmp_path / "page" / "report.md").read_text()
    for title in ("Invariance", "Classes in several batches", "Calibration and rejection", "Model file and memory"):
        assert f"### {title}" in text
    assert "Beside them 4 measurements." in text
    assert "| gddsg | 1 | 1 | 3 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |" in text
