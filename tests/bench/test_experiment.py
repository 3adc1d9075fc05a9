"""Experiments: TOML in, runs out, and clear words for what is wrong."""

from pathlib import Path

import pytest

from gddsg import LEARNERS
from gddsg.bench import experiment_files, experiment_from, read_experiment
from gddsg.bench.experiment import planned_runs, seeds
from gddsg.errors import DataError

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def test_only_what_differs_has_to_be_written():
    experiment = experiment_from("short", {"datasets": ["cub200"]})
    assert [spec.name for spec in experiment.learners] == [name for name, cls in LEARNERS.items() if cls.incremental]
    runs = list(planned_runs(experiment))
    assert len(runs) == len(experiment.learners)
    assert {(run.order_name, run.tasks, run.learner.protocol) for run in runs} == {("seed 1993", 10, "honest")}


def test_a_variant_is_a_learner_with_parameters(tmp_path):
    file = tmp_path / "variants.toml"
    file.write_text(
        """
        title = "Two of a kind"
        datasets = ["cub200", "dogs"]
        tasks = [5, [100, 100]]
        orders = [1993, "hardest"]
        learners = ["simplecil", { name = "hard", method = "gddsg", parameters = { decision = "hard" }, orders = 3 }]
        """
    )
    experiment = read_experiment(file)
    assert experiment.name == "variants"
    simple, hard = experiment.learners
    assert (simple.method, hard.method, hard.parameters) == ("simplecil", "gddsg", {"decision": "hard"})
    runs = list(planned_runs(experiment))
    assert len(runs) == 2 * (2 * 2 + 2 * 3)
    assert {run.order_name for run in runs if run.learner is simple} == {"seed 1993", "hardest"}
    assert {run.order for run in runs if run.learner is hard} == set(seeds(3)) == {1993, 2024, 4202}
    assert {run.tasks for run in runs} == {5, (100, 100)}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "datasets = None"),
        ({"datasets": "cub200"}, "list of names"),
        ({"datasets": ["a"], "taks": 10}, "'taks' is no key of an experiment"),
        ({"datasets": ["a"], "tasks": 0}, "tasks = 0"),
        ({"datasets": ["a"], "tasks": "ten"}, "tasks = 'ten'"),
        ({"datasets": ["a"], "tasks": []}, "tasks = "),
        ({"datasets": ["a"], "orders": 0}, "orders = 0"),
        ({"datasets": ["a"], "orders": ["worst"]}, "hardest"),
        ({"datasets": ["a"], "orders": [-1]}, "orders = "),
        ({"datasets": ["a"], "blur": 2}, "blur = 2"),
        ({"datasets": ["a"], "imbalance": "much"}, "imbalance"),
        ({"datasets": ["a"], "kinds": ["film"]}, "t-SNE"),
        ({"datasets": ["a"], "learners": ["magic"]}, "no learner 'magic'"),
        ({"datasets": ["a"], "learners": [3]}, "The learner 3"),
        ({"datasets": ["a"], "learners": ["gddsg", "gddsg"]}, "Two learners are called 'gddsg'"),
        ({"datasets": ["a"], "learners": [{"name": "x", "method": "gddsg", "colour": 1}]}, "'colour' is no key"),
        ({"datasets": ["a"], "learners": [{"name": "gddsg", "protocol": "kind"}]}, "no protocol 'kind'"),
        ({"datasets": ["a"], "learners": [{"name": "gddsg", "parameters": {"ranks": 3}}]}, "no parameter 'ranks'"),
        ({"datasets": ["a"], "learners": [{"name": "gddsg", "parameters": 3}]}, "expected a table"),
    ],
)
def test_what_is_wrong_is_said(table, message):
    with pytest.raises(DataError) as caught:
        experiment_from("wrong", table)
    assert message in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match="gddsg bench list"):
        read_experiment(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("datasets = [")
    with pytest.raises(DataError, match=r"broken\.toml cannot be read as TOML"):
        read_experiment(broken)
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="TOML"):
        read_experiment(broken)
    broken.write_text('datasets = ["a"]\nfoo = 1')
    with pytest.raises(DataError, match=r"broken\.toml: 'foo'"):
        read_experiment(broken)


@pytest.mark.parametrize("path", experiment_files(EXPERIMENTS), ids=lambda path: path.stem)
def test_every_experiment_of_the_repository_can_be_read(path):
    experiment = read_experiment(path)
    assert experiment.title
    assert experiment.description
    assert list(planned_runs(experiment))


def test_the_papers_experiments_are_there():
    assert {path.stem for path in experiment_files(EXPERIMENTS)} >= {
        "main-table",
        "ablation",
        "order-robustness",
        "task-similarity",
        "group-count",
        "backbones",
        "identification",
        "embedding",
        "cost",
        "honesty",
    }
