"""What the GDDSG paper (CVPR 2025) printed, and under which conditions, so that nobody takes it for comparable.

All values are per cent. GDDSG's own come from the released code, whose evaluation builds the features of a test sample
from the prototypes of that sample's own task: the task is told, so they leak. The values of the other methods are
those the paper gives for them, made with the PILOT toolbox.
"""

from __future__ import annotations

from dataclasses import dataclass

from gddsg.evaluation import protocol

BACKBONE = "ViT-B/16"
RELEASED = f"{protocol.RELEASED.name} (leaks: {protocol.RELEASED.leaks})"
TOOLBOX = "as the paper ran it (PILOT toolbox)"

DATASETS = {
    "cifar100": "CIFAR-100",
    "cub200": "CUB-200",
    "dogs": "Stanford Dogs",
    "omnibenchmark": "OmniBenchmark",
}


@dataclass(frozen=True)
class Published:
    """One printed result; an interval is the ± of the paper, None where it gives none."""

    method: str
    dataset: str
    accuracy: float
    forgetting: float
    accuracy_spread: float | None = None
    forgetting_spread: float | None = None
    backbone: str = BACKBONE
    protocol: str = RELEASED
    groups: int | None = None


# Table 1: (A_N, ±, F_N, ±) on the four data sets.
_MAIN = """
finetune    67.86  0.46 31.25  1.76  48.91  0.49 47.68  3.48  45.64  4.40 46.19  3.68  61.73  5.70 31.84  4.87
l2p         83.45  0.25  8.50  0.43  66.57  1.37 12.00  1.41  65.09  3.74  9.44  2.93  70.10  8.86 13.70  3.39
dualprompt  82.74  0.85  7.19  1.18  68.21  1.55 12.08  4.65  70.90  0.57 10.68  1.35  69.73  8.26 11.91  2.28
coda-prompt 86.86  4.26  6.04  0.71  73.91  1.45  7.84  0.10  74.09  0.69 10.05  0.07  77.59  8.41  9.05  1.89
simplecil   77.63  2.01  7.21  0.48  83.32  2.03  5.89  1.26  83.23  0.72  5.86  0.43  72.15  0.02  8.31  0.31
adam        84.15  0.77  5.03  0.15  83.89  2.07  5.86  1.12  83.98  0.34  6.08  0.54  72.84  0.29  8.23  0.16
ease        86.95  0.41  6.74  0.43  85.78  4.22  6.27  2.98  81.03  1.38  8.18  0.50  74.56  4.32  8.60  1.40
ranpac      90.50  0.34  3.49  0.16  89.23  0.36  3.91  0.45  85.37  0.41  5.78  0.42  78.86  0.16  7.62  0.18
gddsg       94.00  0.03  0.78  0.09  91.64  1.86  1.92  1.29  92.64  0.48  1.42  0.08  87.33  0.32  0.96  0.16
"""

# The ablation table: (A_N, F_N).
_ABLATION = {
    "without class groups": ((74.32, 12.42), (72.86, 16.70), (69.49, 14.13), (66.85, 20.95)),
    "without graph and groups": ((89.96, 4.12), (87.32, 3.78), (83.12, 5.99), (74.21, 9.46)),
    "gddsg": ((93.99, 0.72), (92.95, 1.01), (92.30, 1.48), (87.56, 1.07)),
}

# The table of backbones: (number of groups, A_N, F_N).
_BACKBONES = {
    "ViT-B/16": ((7, 93.99, 0.72), (8, 92.95, 1.01), (4, 92.30, 1.48), (38, 87.56, 1.07)),
    "ResNet-50": ((39, 83.25, 0.73), (34, 70.83, 2.43), (3, 82.65, 1.74), (36, 77.24, 1.17)),
    "ResNet-18": ((34, 80.97, 0.63), (42, 51.44, 18.32), (18, 70.56, 5.34), (44, 62.35, 2.14)),
}

_BACKBONE_NAMES = {"vit-b16": "ViT-B/16", "vitb16": "ViT-B/16", "resnet50": "ResNet-50", "resnet18": "ResNet-18"}
_METHOD_NAMES = {
    "fine-tune": "finetune", "fine-tuning": "finetune", "dual-prompt": "dualprompt", "coda": "coda-prompt",
    "codaprompt": "coda-prompt", "aper": "adam", "simple-cil": "simplecil", "ncm": "simplecil",
}  # fmt: skip


def main_results() -> list[Published]:
    """Table 1 of the paper, ten tasks."""
    results = []
    for line in _MAIN.split("\n")[1:-1]:
        method, *numbers = line.split()
        protocol = RELEASED if method == "gddsg" else TOOLBOX
        for k, dataset in enumerate(DATASETS):
            a, a_spread, f, f_spread = map(float, numbers[4 * k : 4 * k + 4])
            results.append(Published(method, dataset, a, f, a_spread, f_spread, protocol=protocol))
    return results


def ablation() -> list[Published]:
    """The paper's ablation."""
    return [
        Published(variant, dataset, a, f)
        for variant, rows in _ABLATION.items()
        for dataset, (a, f) in zip(DATASETS, rows, strict=True)
    ]


def backbones() -> list[Published]:
    """GDDSG on three backbones, with the number of class groups."""
    return [
        Published("gddsg", dataset, a, f, backbone=backbone, groups=groups)
        for backbone, rows in _BACKBONES.items()
        for dataset, (groups, a, f) in zip(DATASETS, rows, strict=True)
    ]


def dataset_key(dataset: str) -> str:
    """The name under which a data set's printed values stand above."""
    return dataset.removeprefix("stanford-")


def dataset_name(dataset: str) -> str:
    """How a data set is called in tables."""
    return DATASETS.get(dataset_key(dataset), dataset)


def backbone_key(backbone: str) -> str:
    """The paper's name of a backbone, or the name itself where the paper did not use it."""
    return _BACKBONE_NAMES.get(backbone.lower(), backbone)


def method_key(method: str) -> str:
    """The name under which a method's printed values stand above."""
    name = method.lower().replace("_", "-").replace(" ", "-")
    return _METHOD_NAMES.get(name, name)


def ablation_key(learner: str) -> str:
    """Which row of the paper's ablation a variant of ours repeats; empty if none.

    Examples
    --------
    >>> ablation_key("w/o Class Groups"), ablation_key("GDDSG without SimGraphs and Class Groups"), ablation_key("vote")
    ('without class groups', 'without graph and groups', '')

    The paper leaves out no heads; what comes after a colon says what is left.

    >>> ablation_key("without graph, groups and heads"), ablation_key("without graph and groups: one head")
    ('', 'without graph and groups')
    """
    name = learner.lower().partition(":")[0].replace("w/o", "without").replace("-", " ")
    if name.strip() == "gddsg":
        return "gddsg"
    if not any(word in name for word in ("without", "no ")) or "head" in name:
        return ""
    if "graph" in name:
        return "without graph and groups"
    return "without class groups" if "group" in name else ""
