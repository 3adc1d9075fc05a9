"""Speed of the training loop beside a bare loop of forward and backward passes, in turns, in one process.

    python benchmarks/bench_training.py FOLDER --backbone hybrid-vit --out benchmarks/records/training.json

FOLDER holds ``train/`` with one folder a class. Images are prepared once, for both. Ours is
:func:`gddsg.nn.training.train` of the whole network as Finetune trains it: order drawn by lot, batches cut out, taps in
the network, other weights put in for its own, loss looked at, steps of SGD, progress told. The bare loop is the same
network without taps on the same batches, already cut out: forward, cross-entropy, backward, and nothing else. Each turn
is one epoch of both; the first turn is not counted. Seconds depend on the machine, so it is the ratio that counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gddsg.bench.revision import code_revision
from gddsg.data import image_folder
from gddsg.data.images import Images
from gddsg.files import replace_file
from gddsg.nn.heads import LinearHead
from gddsg.nn.networks import Network, load_network
from gddsg.nn.training import Recipe, TrainingProgress, train, watching
from gddsg.nn.training_data import Batch, TrainingData

IMAGES = 1_000
TURNS = 5
RATE = 1e-4  # small: what is measured are steps, not where they lead


def seconds(call: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def training_speed(network: Network, images: Images, targets: list[int], batch_size: int, turns: int) -> dict[str, Any]:
    """Images a second of the training loop and of the bare loop, in turns; medians.

    Parameters
    ----------
    network : Network
        What is trained, a copy of its weights.
    images : Images
        What it is trained on.
    targets : list of int
        What they are.
    batch_size : int
        Images a step.
    turns : int
        Epochs of either that are counted.

    Returns
    -------
    dict
        Both rates, the median of the turns' ratios, and the rate that the loop itself tells at its end.
    """
    data, n_classes = TrainingData(network, images, targets, augment=False), max(targets) + 1
    recipe = Recipe(epochs=1, batch_size=batch_size, rate=RATE, augment=False)
    ours, theirs, told = [], [], list[TrainingProgress]()
    loss, parameters = _whole_network(network, n_classes)
    bare = _bare(network, n_classes, data, batch_size)
    for turn in range(turns + 1):
        with watching(told.append):
            ours.append(seconds(lambda turn=turn: train(loss, parameters, data, recipe, (0, turn))))
        theirs.append(seconds(bare))
    ratios = [one / other for one, other in zip(ours[1:], theirs[1:], strict=True)]
    return {
        "backbone": network.identity,
        "device": str(network.device),
        "threads": torch.get_num_threads(),
        "images": len(data),
        "batch_size": batch_size,
        "turns": turns,
        "images_per_second": round(len(data) / statistics.median(ours[1:]), 1),
        "bare_images_per_second": round(len(data) / statistics.median(theirs[1:]), 1),
        "told_images_per_second": round(told[-1].samples_per_second, 1),
        "times_slower": round(statistics.median(ratios), 3),
        "times_slower_in_each_turn": [round(one, 3) for one in ratios],
    }


def _whole_network(network: Network, n_classes: int) -> tuple[Callable[[Batch], Tensor], list[nn.Parameter]]:
    weights = {name: nn.Parameter(one.detach().clone()) for name, one in network.module.named_parameters()}
    head = LinearHead(network.feature_dim, n_classes, torch.Generator().manual_seed(0)).to(network.device)

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(head(network.features(batch.inputs, weights=weights)), batch.targets)

    return loss, [*weights.values(), *head.parameters()]


def _bare(network: Network, n_classes: int, data: TrainingData, batch_size: int) -> Callable[[], None]:
    module = _without_taps(network.module)
    head = nn.Linear(network.feature_dim, n_classes).to(network.device)
    random = np.random.default_rng(0)
    order = random.permutation(len(data))
    batches = [data.batch(order[start : start + batch_size], random) for start in range(0, len(data), batch_size)]

    def loop() -> None:
        for batch in batches:
            F.cross_entropy(head(_features(module(batch.inputs))), batch.targets).backward()
            module.zero_grad()
            head.zero_grad()
        if network.device.type == "cuda":
            torch.cuda.synchronize()

    return loop


def _features(found: Any) -> Tensor:
    """Of a network's own output: a vector, tokens of which the first counts, or a map that is pooled."""
    if isinstance(found, Tensor):
        return found
    tokens: Tensor = found.last_hidden_state
    return tokens[:, 0] if tokens.ndim == 3 else found.pooler_output.flatten(1)


def _without_taps(module: nn.Module) -> Any:
    copy: Any = deepcopy(module).requires_grad_(True)
    for one in copy.modules():
        one._forward_hooks.clear()
        one._forward_pre_hooks.clear()
    if hasattr(copy, "config"):
        copy.config._attn_implementation = "sdpa"
    return copy


def some_images(folder: Path, n: int) -> tuple[Images, list[int]]:
    """Images of a folder's training part, from all over it, and what they are.

    Parameters
    ----------
    folder : Path
        With ``train/`` and one folder a class in it.
    n : int
        How many, about.

    Returns
    -------
    tuple of Images and list of int
        Classes are numbered by their names.
    """
    photos = image_folder(folder).train
    photos = photos[:: max(len(photos) // n, 1)][:n]
    names = sorted({photo.label for photo in photos})
    return Images.of(photos), [names.index(photo.label) for photo in photos]


def main() -> None:
    """Measure, print and write one record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--backbone", default="hybrid-vit", help="whatever a trained learner takes")
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/records/training.json"))
    args = parser.parse_args()
    images, targets = some_images(args.folder, args.images)
    speed = training_speed(load_network(args.backbone), images, targets, args.batch_size, args.turns)
    record = {"revision": code_revision(), **speed}
    print(json.dumps(record, indent=1))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    replace_file(args.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
