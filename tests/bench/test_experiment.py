"""Experiments: TOML in, runs out, and clear words for what is wrong."""

from datetime import date
from pathlib import Path

import pytest

from gddsg import LEARNERS, SimpleCIL
from gddsg.bench import experiment_files, experiment_from, read_experiment
from gddsg.bench.experiment import number_of_runs, part_of, planned_runs, seeds
from gddsg.bench.methods import METHODS, new_learner
from gddsg.checks.laws import arrival_order_does_not_matter
from gddsg.errors import DataError

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def test_only_what_differs_has_to_be_written():
    experiment = experiment_from("short", {"datasets": ["cub200"]})
    usual = [name for name, cls in LEARNERS.items() if cls.incremental and cls.takes == "features"]
    assert [spec.name for spec in experiment.learners] == usual
    assert "gddsg" in usual
    assert not {"finetune", "joint_ridge"} & set(usual)
    runs = list(planned_runs(experiment))
    assert len(runs) == len(experiment.learners)
    assert {(run.order_name, run.tasks, run.learner.protocol) for run in runs} == {("seed 1993", 10, "honest")}


def test_a_learner_may_be_run_once_on_some_data_sets():
    learners = ["slda", {"name": "ranpac", "once_on": ["b"]}]
    experiment = experiment_from("x", {"datasets": ["a", "b"], "orders": 4, "seeds": 3, "learners": learners})
    runs = list(planned_runs(experiment))
    assert number_of_runs(experiment) == len(runs) == 2 * 4 + (4 + 2) + 1
    (once,) = (run for run in runs if run.learner.name == "ranpac" and run.dataset == "b")
    assert (once.order, once.seed) == (1993, 0)


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
        ({"datasets": ["a"], "tasks": []}, "tasks has 0 entries"),
        ({"datasets": ["a"], "tasks": [5, []]}, "tasks has 0 entries"),
        ({"datasets": ["a"], "tasks": [[0]]}, "tasks = [[0]]"),
        ({"datasets": ["a"], "tasks": 10**12}, "from 1 to 1000000"),
        ({"datasets": ["a"], "tasks": [5, 5]}, "tasks has 5 more than once"),
        ({"datasets": ["a"], "orders": 0}, "orders = 0"),
        ({"datasets": ["a"], "orders": ["worst"]}, "hardest"),
        ({"datasets": ["a"], "orders": [-1]}, "orders = "),
        ({"datasets": ["a"], "orders": 10**9}, "orders = 1000000000"),
        ({"datasets": ["a"], "orders": [1, 1]}, "orders has 1 more than once"),
        ({"datasets": ["a"], "orders": [["hardest"]]}, "orders = "),
        ({"datasets": ["a"], "seed": -1}, "seed is -1; expected a whole number from 0"),
        ({"datasets": ["a"], "seed": 2**70}, "seed is 1180591620717411303424"),
        ({"datasets": ["a"], "seed": 16**9999}, "seed is a whole number of 39997 bits"),
        ({"datasets": ["a"], "seed": "x"}, "seed is 'x'; expected a whole number"),
        ({"datasets": ["a"], "title": 3}, "title is 3; expected text"),
        ({"datasets": ["a"], "base": 1.5}, "base is 1.5; expected a whole number"),
        ({"datasets": ["a"], "search_steps": 2.5}, "search_steps is 2.5"),
        ({"datasets": ["a"], "imbalance": float("nan")}, "imbalance is nan"),
        ({"datasets": ["a"], "lengths": [2.0]}, "lengths = [2.0]"),
        ({"datasets": ["a"], "learners": 3}, "learners = 3"),
        ({"datasets": ["a"], "learners": []}, "learners has 0 entries"),
        ({"datasets": ["a"], "learners": ["gddsg"] * 10_001}, "learners has 10001 entries"),
        ({"datasets": ["a", "a"]}, "datasets has 'a' more than once"),
        ({"datasets": ["a\0b"]}, "no null character"),
        ({"datasets": ["\ud800"]}, "without halves of characters"),
        ({"datasets": [""]}, "not empty"),
        ({"datasets": [f"d{k}" for k in range(1000)], "orders": 1000, "learners": ["gddsg"]}, "makes 1000000 runs"),
        ({"datasets": ["a"], "learners": [{"name": "gddsg", "only_last": "yes"}]}, "only_last is 'yes'"),
        ({"datasets": ["a"], "learners": [{"name": "gddsg", "tasks": [5, 10]}]}, "expected one number of tasks"),
        ({"datasets": ["a"], "learners": [{"name": "gddsg", "protocol": []}]}, "protocol is []"),
        ({"datasets": ["a"], "learners": [{"name": "x", "method": 3}]}, "method is 3"),
        ({"datasets": ["a"], "learners": [{"name": "x", "method": "os:sep.x"}]}, "there is no 'x' in os"),
        (
            {"datasets": ["a"], "learners": [{"name": "gddsg", "parameters": {"rank": date(2020, 1, 1)}}]},
            "'rank' is dat",
        ),
        ({"datasets": ["a"], "learners": [{"name": "gddsg", "parameters": {"rank": float("inf")}}]}, "'rank' is inf"),
        ({"datasets": ["a"], "fixed_tasks": 1}, "fixed_tasks is 1"),
        ({"datasets": ["a"], "fixed_tasks": True, "orders": [1993, "hardest"]}, "with the order 'hardest'"),
        (
            {"datasets": ["a"], "fixed_tasks": True, "learners": [{"name": "gddsg", "orders": ["easiest"]}]},
            "with the order 'easiest'",
        ),
        ({"datasets": ["a"], "fixed_tasks": True, "base": 50}, "base = 50; expected tasks of one size"),
        ({"datasets": ["a"], "fixed_tasks": True, "tasks": [[2, 3]]}, "[2, 3]; expected tasks of one size"),
        ({"datasets": ["a"], "seeds": 0}, "seeds = 0 was given; expected how many"),
        ({"datasets": ["a"], "seeds": True}, "seeds = True"),
        ({"datasets": ["a"], "seeds": []}, "seeds = []"),
        ({"datasets": ["a"], "seeds": [3, 1]}, "the smallest first"),
        ({"datasets": ["a"], "seeds": [1, 1]}, "seeds has 1 more than once"),
        ({"datasets": ["a"], "seeds": [2**32]}, "seeds = [4294967296]"),
        ({"datasets": ["a"], "seed": 7, "seeds": [1, 2]}, "seed = 7 was given with seeds = [1, 2]"),
        ({"datasets": ["a"], "kinds": ["trust"], "seeds": 2}, "kinds = ['trust'] was given with seeds"),
        ({"datasets": ["a"], "learners": [{"name": "gddsg", "seeds": "x"}]}, "seeds = 'x'"),
        ({"datasets": ["a"], "learners": [{"name": "gddsg", "orders_once": 1}]}, "orders_once is 1"),
        ({"datasets": ["a"], "learners": [{"name": "gddsg", "once_on": "a"}]}, "once_on = 'a'"),
        ({"datasets": ["a"], "learners": [{"name": "gddsg", "once_on": ["b"]}]}, "has 'b'; expected some of the"),
        (
            {"datasets": ["a"], "imbalance": 10, "learners": [{"name": "gddsg", "orders_once": True}]},
            "with blur = 0 and imbalance = 10; expected neither",
        ),
        ("text", "expected a table"),
        ({"datasets": ["a"], "blur": 2}, "blur is 2; expected a number from 0 to 0.9"),
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


def test_runs_are_counted_without_planning_them():
    table = {
        "datasets": ["a", "b"],
        "kinds": ["stream", "split"],
        "parts": [2, 3],
        "tasks": [5, [1, 2]],
        "learners": ["gddsg", {"name": "ranpac", "orders": 4, "tasks": 3}],
    }
    experiment = experiment_from("small", table)
    assert number_of_runs(experiment) == len(list(planned_runs(experiment))) == 2 * 3 * (2 + 4)


def test_fixed_tasks_are_those_of_the_first_seed():
    table = {"datasets": ["a"], "fixed_tasks": True, "orders": [7, 8], "tasks": [5, [3, 3]]}
    learners = ["gddsg", {"name": "ranpac", "orders": [9]}]
    runs = list(planned_runs(experiment_from("fixed", {**table, "learners": learners})))
    assert {run.tasks_of for run in runs} == {7}
    assert {run.order_name for run in runs} == {f"seed {seed} of tasks 7" for seed in (7, 8, 9)}
    assert {run.tasks_of for run in planned_runs(experiment_from("free", {**table, "fixed_tasks": False}))} == {None}


def drawn(experiment, name):
    return [(run.order, run.seed) for run in planned_runs(experiment) if run.learner.name == name]


def test_all_orders_have_the_first_seed_and_all_seeds_the_first_order():
    learners = ["gddsg", {"name": "ranpac", "seeds": [4, 7]}, {"name": "klda", "seeds": 1}]
    experiment = experiment_from("x", {"datasets": ["a"], "orders": 3, "seeds": 3, "seed": 5, "learners": learners})
    orders = [(1993, 5), (2024, 5), (4202, 5)]
    assert drawn(experiment, "gddsg") == [*orders, (1993, 6), (1993, 7)]
    assert drawn(experiment, "ranpac") == [(1993, 4), (2024, 4), (4202, 4), (1993, 7)]
    assert drawn(experiment, "klda") == orders
    assert number_of_runs(experiment) == len(list(planned_runs(experiment))) == 5 + 4 + 3


@pytest.mark.parametrize("learner", ["simplecil", {"name": "gddsg", "parameters": {"seed": 3}}])
def test_a_learner_that_takes_no_seed_is_run_with_the_first_alone(learner):
    table = {"datasets": ["a"], "seeds": [2, 3], "learners": [learner]}
    assert [run.seed for run in planned_runs(experiment_from("x", table))] == [2]
    assert len(list(planned_runs(experiment_from("x", {**table, "blur": 0.5})))) == 2  # other samples, other results
    assert len(list(planned_runs(experiment_from("x", {**table, "learners": [{"name": "slda", "seeds": 2}]})))) == 2


def test_one_order_of_a_learner_that_does_not_care_about_it():
    learners = ["ranpac", {"name": "gddsg", "orders_once": True}]
    experiment = experiment_from("x", {"datasets": ["a"], "orders": 3, "seeds": 2, "learners": learners})
    assert drawn(experiment, "gddsg") == [(1993, 0), (1993, 1)]
    assert len(drawn(experiment, "ranpac")) == 4


class Moody(SimpleCIL):
    exempt = {"arrival_order_does_not_matter": "the last task counts twice"}  # noqa: RUF012


class Stranger:
    def partial_fit(self, X, y): ...

    def predict(self, X): ...


@pytest.mark.parametrize(
    ("cls", "message"),
    [(Moody, "the law arrival_order_does_not_matter .the last task counts twice."), (Stranger, "has no `exempt`")],
)
def test_one_order_of_a_learner_that_may_care_about_it_is_refused(cls, message, monkeypatch):
    monkeypatch.setitem(METHODS, "mine", cls)
    table = {"datasets": ["a"], "learners": [{"name": "mine", "orders_once": True}]}
    with pytest.raises(DataError, match=f"given for 'mine', but .*{message}.*Leave the key out"):
        experiment_from("x", table)


ONCE = {
    f"{path.stem}: {spec.name}": spec
    for path in experiment_files(EXPERIMENTS)
    for spec in read_experiment(path).learners
    if spec.orders_once
}


@pytest.mark.parametrize("name", ONCE)
def test_the_law_holds_for_every_learner_run_in_one_order_as_it_is_run(name):
    parameters = dict(ONCE[name].parameters)
    cheap = {key: min(value, 32) for key, value in parameters.items() if key == "projection_dim"}
    arrival_order_does_not_matter(new_learner(ONCE[name].method, {**parameters, **cheap}, 0))


COMMAS = ["gddsg", "gddsg, paper's groups", "ranpac"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ([], COMMAS),
        (["ranpac"], ["ranpac"]),
        (["ranpac,gddsg"], ["gddsg", "ranpac"]),
        (["ranpac, gddsg, paper's groups"], ["gddsg, paper's groups", "ranpac"]),
        (["gddsg, paper's groups,gddsg"], ["gddsg", "gddsg, paper's groups"]),
        (["ranpac", "gddsg", "gddsg"], ["gddsg", "ranpac"]),
    ],
)
def test_a_part_has_what_was_named_in_the_order_of_the_whole(asked, found):
    learners = [{"name": name, "method": "gddsg"} for name in COMMAS]
    experiment = experiment_from("x", {"datasets": ["a", "b", "c"], "learners": learners})
    part = part_of(experiment, ["c,a"], asked)
    assert part.datasets == ("a", "c")
    assert [spec.name for spec in part.learners] == found
    assert part.name == "x"


def test_a_part_that_is_not_there_is_an_error_that_lists_what_is():
    experiment = experiment_from("x", {"datasets": ["a", "b"], "learners": ["gddsg", "ranpac"]})
    with pytest.raises(DataError, match="There is no data set 'd' in x; those are 'a', 'b'"):
        part_of(experiment, ["a,d"])
    with pytest.raises(DataError, match="There is no learner 'slda' in x; those are 'gddsg', 'ranpac'"):
        part_of(experiment, learners=["slda"])
    with pytest.raises(DataError, match="no learner ''"):
        part_of(experiment, learners=["gddsg,"])


def test_so_many_orders_are_so_many():
    assert len(set(seeds(3000))) == 3000


def test_a_module_that_ends_python_while_it_is_imported_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "leaving_module.py").write_text("import sys; sys.exit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DataError, match="SystemExit: 3"):
        experiment_from("x", {"datasets": ["a"], "learners": ["leaving_module:X"]})


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
    for content in ("a = " + "[" * 50_000, "a = " + "{a = " * 5000, f"seed = {'9' * 5000}", "\0"):
        broken.write_text(content)
        with pytest.raises(DataError, match="cannot be read as TOML"):
            read_experiment(broken)
    for path in (Path("/dev/zero"), Path("a\0b"), tmp_path):
        with pytest.raises(DataError, match="cannot be read as TOML"):
            read_experiment(path)
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
        "everyday",
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
