"""Records of version 1, made up: every kind and every experiment, failures and gaps included."""

import hashlib
import itertools

import numpy as np

from gddsg.bench.record import record_from_json

HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "a|b `c` **d** [e](http://evil.example)",
    "<!-- $title ${style} -->",
    "\u2028\x00\x1b[31m\nline",
    "\u202ehalf",
    "$\\frac{",
    "汉字",
)
DATASETS = {"cifar100": 20, "cub200": 30, "stanford-dogs": 20, "omnibenchmark": 40}
SKILL = {"gddsg": 78, "ranpac": 74, "simplecil": 66, "fecam": 72, "icarl": 70, "joint": 82}
FUTURE = {"kind": "of the future", "run": "2", "experiment": "x", "dataset": "y", "learner": "z", "answer": 42}
SEEDS = ("seed 1993", "seed 2024", "seed 4202")


def stream(
    learner="gddsg", dataset="cifar100", order="seed 1993", experiment="main-table", n_classes=20, tasks=10, **more
):
    """One run; accuracies depend on the learner and, unless it is gddsg, on the order."""
    rng = np.random.default_rng(_number(dataset, order))
    noise = np.random.default_rng(_number(learner, dataset, order))
    base = SKILL.get(learner.split()[0], 60)
    classes = [f"class {k:03}" for k in rng.permutation(n_classes)]
    sizes = [n_classes // tasks] * tasks
    own = {name: np.clip(base + 12 * np.random.default_rng(_number(name)).standard_normal(), 5, 99) for name in classes}
    shift = 0 if learner.startswith("gddsg") else 1
    wobble = {name: shift * noise.normal(-0.5, 2) for name in classes}
    rows = []
    for k in range(tasks):
        seen = classes[: sum(sizes[: k + 1])]
        easier = 14 * (1 - len(seen) / n_classes)
        rows.append([round(float(np.clip(own[c] + wobble[c] + easier, 0, 100)), 2) for c in seen])
    final = float(np.mean(rows[-1]))
    told = f"{experiment}{learner}{dataset}{order}{tasks}{sorted(more.items())}"
    return {
        "kind": "stream",
        "run": f"{_number(told):016x}",
        "experiment": experiment,
        "dataset": dataset,
        "backbone": "efficientnet-lite0",
        "data_fingerprint": "f00d",
        "learner": learner,
        "method": learner.split()[0],
        "parameters": {},
        "exemplar_free": learner != "icarl",
        "incremental": learner != "joint",
        "protocol": "honest",
        "leaks": False,
        "order": order,
        "class_order": classes,
        "sizes": sizes,
        "metrics": {
            "A_N": round(final, 3),
            "F_N": round(float(14 * (1 - sizes[0] / n_classes) / 2), 3),
            "AIA": round(float(np.mean([np.mean(row) for row in rows])), 3),
            "BWT": -7.0,
            "ECE": 4.9,
            "seconds_learning": 12.5 + shift,
            "seconds_predicting": 1.5,
            "state_MB": 59.0,
        },
        "class_accuracies": rows,
        **({"groups": [min(4 + k, 9) for k in range(tasks)]} if learner.startswith("gddsg") else {}),
        "seconds_per_task": [1.0 + 0.1 * k * (1 + shift) for k in range(tasks)],
        "state_MB_per_task": [6.0 * (k + 1) if not shift else 40.0 for k in range(tasks)],
        "confusions": [[classes[k], classes[k + 1], 23 - k] for k in range(min(10, n_classes - 1))],
        "seed": 0,
        "versions": {"python": "3.11.2", "numpy": "2.0"},
        "revision": "abc1234",
        **more,
    }  # fmt: skip


def typed(records):
    """Records as the report takes them."""
    return [record_from_json(record, f"Record {k}") for k, record in enumerate(records)]


def everything(datasets=None, seeds=SEEDS):
    """Every experiment the report knows, one it does not, failures, gaps, hostile names, an embedding and graphs."""
    datasets = DATASETS if datasets is None else datasets
    records = []
    for dataset, n_classes in datasets.items():
        where = {"dataset": dataset, "n_classes": n_classes}
        for learner in SKILL:
            for order in seeds:
                if learner != "joint":
                    records.append(stream(learner, order=order, **where))
                    records.append(stream(learner, order=order, experiment="cost", **where))
            for order in (*seeds, "hardest", "easiest"):
                if learner in ("gddsg", "ranpac", "simplecil"):
                    records.append(stream(learner, order=order, experiment="order-robustness", **where))
            for order in ("similar together", "similar apart"):
                records.append(stream(learner, order=order, experiment="task-similarity", **where))
        records.append(stream("joint", tasks=1, **where))
        records += _of_gddsg(where, seeds)
        records += _drawings(dataset, n_classes)
    records.append(_failed(stream("ranpac", order="seed 7"), "ValueError: a | b <b>bold</b>\nsecond line"))
    records.append(_failed(stream("gddsg", experiment="embedding", kind="UMAP"), "MissingExtraError: no umap"))
    records.append(stream("gddsg", experiment="something new", metrics={"A_N": None, "F_N": float("nan")}))
    records.append(stream("ranpac", experiment="something new", class_accuracies=None, confusions=None))
    hostile = stream("gddsg", experiment="main-table", dataset=HOSTILE[0], n_classes=10, tasks=5)
    hostile["class_order"] = [*HOSTILE, "x", "y"]
    hostile["confusions"] = [[a, b, 5] for a, b in itertools.pairwise(HOSTILE)]
    records += [hostile, {**hostile, "learner": HOSTILE[2], "run": "1"}, FUTURE]
    return records


def _of_gddsg(where, seeds):
    found = []
    for order in seeds:
        for variant in ("gddsg", "gddsg without class groups", "gddsg without graph and groups"):
            found.append(stream(variant, order=order, experiment="ablation", **where))
        for way in ("tree", "MLP", "LightGBM", "k-NN", "forest", "vote", "evidence"):
            record = stream(f"gddsg {way}", order=order, experiment="identification", **where)
            record["metrics"] |= {"group_accuracy": 60.0 + 3 * len(way), "accuracy_in_group": 97.5}
            found.append(record)
        for tasks in (5, 10, where["n_classes"] // 2):
            found.append(stream("gddsg", order=order, experiment="group-count", tasks=tasks, **where))
        for backbone in ("efficientnet-lite0", "resnet50", "vit-b16"):
            found.append(stream("gddsg", order=order, experiment="backbones", backbone=backbone, **where))
        found.append(stream("gddsg", order=order, experiment="honesty", **where))
        for protocol, gain in (("released", 14.0), ("oracle-group", 9.0)):
            told = stream("gddsg", order=order, experiment="honesty", protocol=protocol, leaks=True, **where)
            told["metrics"]["A_N"] += gain
            found.append(told)
    return found


def _drawings(dataset, n_classes):
    rng = np.random.default_rng(n_classes)
    groups = [k % 4 for k in range(n_classes)]
    pairs = [[i, j] for i in range(n_classes) for j in range(i) if groups[i] != groups[j]]
    names = [f"class {k:03}" for k in range(n_classes)]
    common = {"experiment": "embedding", "dataset": dataset, "learner": "gddsg"}
    points = [(int(g), *(rng.normal(size=2) + 4 * np.array([g % 2, g // 2])).round(2)) for g in rng.integers(0, 4, 120)]
    drawn = [
        {
            "kind": "embedding", "method": method, "run": method + dataset, **common,
            "points": [[float(x), float(y)] for _, x, y in points], "groups": [g for g, _, _ in points], "labels": [],
        }
        for method in ("t-SNE", "UMAP")
    ]  # fmt: skip
    dense = {"kind": "graph", "run": "dense" + dataset, "classes": names, "group_of_class": groups, "edges": pairs}
    return [
        *drawn,
        {**common, **dense},
        {**common, **dense, "run": "sparse" + dataset, "edges": pairs[::7][: 2 * n_classes]},
    ]


def _failed(record, error):
    gone = ("metrics", "class_accuracies", "class_order", "sizes", "groups", "confusions")
    return {**{key: value for key, value in record.items() if key not in gone}, "error": error}


def _number(*names):
    return int(hashlib.sha256("/".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:12], 16)
