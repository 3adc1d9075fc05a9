"""Damaged records and experiments by the thousand: each is read and reported on, or refused in words."""

import json
import random
import tempfile
import tomllib
import warnings
from contextlib import ExitStack
from copy import copy
from functools import lru_cache
from pathlib import Path
from unittest import mock

from tests.attack.counts import Counts
from tests.report.benchmark.synthetic import HOSTILE, everything

from gddsg.bench import experiment_files, experiment_from, read_experiment, read_records
from gddsg.bench.experiment import planned_runs
from gddsg.errors import DataError
from gddsg.report.benchmark import bars, curves, group_figures, maps, order_figures, write_report
from gddsg.report.benchmark.document import Picture
from gddsg.report.benchmark.sections import _KNOWN

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
DRAWN_EVERY = 50  # drawing a figure takes longer than all else


def nested(depth, opening=list):
    found = 0
    for _ in range(depth):
        found = [found] if opening is list else {"a": found}
    return found


JUNK = (
    None, True, False, 0, 1, -1, 2, 3, 100, 101, 10**9, 2**63, -(2**70), 10**400, 0.5, -0.0, 1e-320, 99.999, 1e300,
    float("nan"), float("inf"), "", "x", "stream", "gddsg", "seed 1", "\ud800", "\0", "x" * 5000, *HOSTILE, [], [0],
    [[]], [None], ["a", "a"], {}, {"a": 1}, nested(3), nested(30), nested(30, dict), nested(600),
)  # fmt: skip
WORST = (10**400, -1, float("nan"), 1e300, "\ud800", nested(600), [], None)
PLAUSIBLE = {
    "experiment": (*_KNOWN, "another"),
    "learner": ("gddsg", "ranpac", "GDDSG", "gddsg without class groups", *HOSTILE),
    "dataset": ("cifar100", "stanford-dogs", "own"),
    "backbone": ("vit-b16", "efficientnet-lite0", ""),
    "protocol": ("honest", "released", "oracle-group", "batch-wise-prompts", "another"),
    "order": ("seed 1", "seed 2", "hardest", "similar together", "similar apart", "", "²"),
    "incremental": (True, False),
    "exemplar_free": (True, False),
    "blur": (0.0, 0.3),
    "imbalance": (1.0, 10.0),
    "seed": (0, 1),
}
RARE = {
    "kind": ("stream", "t-SNE", "UMAP", "graph", "invariance", "split", "trust", "memory", "embedding", "to come"),
    "leaks": ("", "something", True, False),
    "version": (1, 2, 3, 0, True, 2.0),
    "error": ("", "ValueError: x"),
}


@lru_cache
def whole_lines():
    """A few lines of every stored file, and of every kind of made-up record, as objects."""
    stored = [
        json.loads(line)
        for path in sorted((EXPERIMENTS / "records").glob("*.jsonl"))
        for line in path.read_bytes().splitlines()[:3]
    ]
    made = everything({"cifar100": 20}, ("seed 1993", "seed 2024"))
    return [*stored, *made]


def places(value, place=()):
    """Every place in nested lists and objects, at most a few of each list."""
    yield place
    if len(place) > 8:
        return
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*place, name))
    elif isinstance(value, list):
        for number in {0, len(value) // 2, len(value) - 1} if value else ():
            yield from places(value[number], (*place, number))


def damaged(value, rng):
    """The same with one thing changed."""
    chosen = rng.choice(list(places(value))[1:] or [()])
    if not chosen:
        return rng.choice(JUNK)
    *way, last = chosen
    inside = value = copy(value)
    for step in way:
        inside[step] = copy(inside[step])
        inside = inside[step]
    rng.choice((_swap, _swap, _swap, _drop, _double, _rename, _tweak, _tweak))(inside, last, rng)
    return value


def _swap(inside, last, rng):
    inside[last] = rng.choice(rng.choice((JUNK, WORST)))


def _drop(inside, last, rng):
    del inside[last]


def _double(inside, last, rng):
    if isinstance(inside, list):
        inside.insert(last, inside[last])
    else:
        inside[f"{last}2"] = inside[last]


def _rename(inside, last, rng):
    if isinstance(inside, dict):
        inside[str(rng.choice(JUNK[-14:-4]))] = inside.pop(last)
    else:
        rng.shuffle(inside)


def _tweak(inside, last, rng):
    """Another value of the same type: what checks of types let through."""
    value = inside[last]
    if isinstance(value, bool):
        inside[last] = not value
    elif isinstance(value, int | float):
        inside[last] = type(value)(rng.choice((0, 1, -1, 2, 100, 1e9, value + 1, value * 1000)))
    elif isinstance(value, str):
        inside[last] = rng.choice(("", "a", "b", value.upper(), *HOSTILE))
    elif isinstance(value, list):
        inside[last] = value[: rng.randrange(len(value) + 1)]
    elif isinstance(value, dict):
        inside[last] = dict(list(value.items())[: rng.randrange(len(value) + 1)])


def plausible(value, rng):
    """The same with some names of the head exchanged for others that make sense."""
    known = {**PLAUSIBLE, **RARE} if rng.random() < 0.1 else PLAUSIBLE
    names = rng.sample(sorted(known), rng.randrange(1, 6))
    return {**value, **{name: rng.choice(known[name]) for name in names}, "run": str(rng.random())}


def damaged_bytes(line, rng):
    """A line with bytes changed."""
    at = rng.randrange(len(line))
    return rng.choice(
        (
            line[:at],
            line[:at] + bytes([line[at] ^ 1 << rng.randrange(8)]) + line[at + 1 :],
            line[:at] + rng.choice((b"\0", b"\xff", b"\n", b'"', b"{", b"]", b"9" * 5000, b"[" * 5000)) + line[at:],
            b"{" + line[1:-1] + b"," + line[1:],
            b'{"run":' * 5000 + line,
            line.replace(b"0", b"NaN", 1),
            line.decode("utf-8", "replace").encode("utf-16"),
        )
    )


def record_file(rng):
    """The content of a file of records with something wrong, or odd, in it."""
    whole, lines = whole_lines(), []
    of_one = rng.random() < 0.5 and [one for one in whole if one["experiment"] == rng.choice(whole)["experiment"]]
    chosen = of_one or whole
    for value in rng.sample(chosen, min(rng.choice((1, 2, 3, 8)), len(chosen))):
        lines.append(plausible(value, rng) if rng.random() < 0.8 else value)
    for _ in range(rng.choice((0, 1, 1, 2))):
        number = rng.randrange(len(lines))
        lines[number] = damaged(lines[number], rng) if lines[number] else {}
    found = [json.dumps(one, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass") for one in lines]
    if rng.random() < 0.15:
        found[-1] = damaged_bytes(found[-1], rng)
    return b"\n".join(found) + rng.choice((b"\n", b"\n", b""))


def _not_drawn(figure, name, alt):
    return Picture(name, alt, "<svg >", b"")


def _try(attempt, counts):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            attempt()
    except DataError:
        counts.count("refused")
    except Exception as error:
        counts.fail(f"{type(error).__name__}: {str(error)[:200]}")
    else:
        counts.count("accepted")


def attack_records(n, seed=0):
    """Read ``n`` damaged files and report on what was accepted."""
    rng, counts = random.Random(seed), Counts()
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "records.jsonl", Path(folder) / "report"
        for number in range(n):
            file.write_bytes(record_file(rng))
            with ExitStack() as patches:
                for module in (bars, curves, group_figures, maps, order_figures) if number % DRAWN_EVERY else ():
                    patches.enter_context(mock.patch.object(module, "render", _not_drawn))
                _try(lambda: write_report(read_records(file), out), counts)
    return counts


EXPERIMENT = {
    "title": "t", "description": "d", "datasets": ["cub200"], "kinds": ["stream"], "backbones": ["b"],
    "tasks": [5, [1, 2]], "lengths": [2], "base": 0, "orders": [1993, "hardest"], "parts": [4], "blur": 0.0,
    "imbalance": 1.0, "search_steps": 3, "seed": 0,
    "learners": [
        "gddsg",
        {
            "name": "x", "method": "gddsg", "parameters": {"rank": 3, "projection_dim": 64, "decision": "hard"},
            "protocol": "honest", "orders": 3, "tasks": 2, "only_last": True,
        },
    ],
}  # fmt: skip
TOML_JUNK = (
    *JUNK, 10**12, 2**32, 10**5000, ["a"] * 100_000, list(range(100_000)), [[1] * 1000] * 1000,
    tomllib.loads("a = 1979-05-27")["a"], "os:system", "os:sep.x", "gddsg:", ":", "a:b:c", "\0:x", "no.such.module:X",
    "json:JSONDecoder", "__main__:x", "..:x", "x" * 300 + ".npz",
)  # fmt: skip
TOML_TEXT = (
    "a = " + "[" * 50_000, "a = " + "{a=" * 5000, "a" + ".a" * 2000 + " = 1", "seed = 0x" + "f" * 100_000,
    "seed = " + "9" * 100_000, 'datasets = ["\\ud800"]', "seed = nan", "orders = 1979-05-27T00:00:00",
    "\0", "\ufeffseed = 1", 'datasets = ["a"]\ndatasets = ["b"]', "[[learners]]\n" * 1000, "seed = -0",
    'datasets = ["a"]\nblur = 1e999', 'datasets = ["a"]\nseed = 0x' + "f" * 9000,
)  # fmt: skip


def attack_experiments(n, seed=0):
    """Read ``n`` damaged experiments, and plan the runs of those accepted."""
    rng, counts = random.Random(seed), Counts()
    stored = [tomllib.loads(path.read_text()) for path in experiment_files(EXPERIMENTS)]
    with tempfile.TemporaryDirectory() as folder, mock.patch(f"{__name__}.JUNK", TOML_JUNK):
        file = Path(folder) / "experiment.toml"
        for number in range(n):
            if number % 5 == 0:
                text = rng.choice(TOML_TEXT) if number % 2 else _damaged_text(rng)
                file.write_bytes(text.encode("utf-8", "surrogatepass"))
                _try(lambda: _planned(read_experiment(file)), counts)
                continue
            table = rng.choice((EXPERIMENT, *stored))
            for _ in range(rng.choice((1, 1, 2, 3))):
                table = damaged(table, rng) if isinstance(table, dict) else table
            _try(lambda table=table: _planned(experiment_from("damaged", table)), counts)
    return counts


def _damaged_text(rng):
    text = rng.choice(experiment_files(EXPERIMENTS)).read_text()
    at = rng.randrange(len(text))
    return (
        text[:at]
        + rng.choice(("", "\0", '"', "[", "]", "=", "\ud800", "9" * 50, "\n", "-", "."))
        + text[at + rng.randrange(3) :]
    )


def _planned(experiment):
    for _ in planned_runs(experiment):
        pass
