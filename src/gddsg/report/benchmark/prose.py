"""Sentences made of numbers: the summary on top, how to read the report, and what it was made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gddsg.report.benchmark.headlines import headlines
from gddsg.report.benchmark.published import dataset_name
from gddsg.report.benchmark.records import Measured, Records, Stream
from gddsg.report.benchmark.summary import REFERENCE, Comparison, Contest, Entry, compare
from gddsg.report.benchmark.tables import ONCE, interval_text, plain, signed, with_interval
from gddsg.wording import counted

READING = (
    "A_N is the mean over all classes of the accuracy after the last task, in per cent; every class counts the same.",
    "F_N is forgetting: accuracy of a class just after it was learnt less that in the end, averaged over classes.",
    "AIA is the accuracy over classes seen so far, averaged over tasks. BWT is what later tasks did to the accuracy of "
    "earlier ones; below zero it was lost.",
    "ECE, the calibration error, is the gap between the confidence of predictions and how often they are right. A dash "
    "there is a learner whose method gives scores and no probabilities: their scale would be a choice of ours, so its "
    "error would say nothing about the method.",
    "OPD is the range of final accuracy over random class orders: MOPD its maximum and AOPD its mean over positions of "
    "tasks, as in the paper; by class it follows each class, and is zero for a learner that ignores the order.",
    "The worst A_N and the range of A_N count all class orders, those built to be hard or easy too; all else is over "
    "random orders.",
    "± tells what another draw of class orders may change; a learner that ignores the order has ± 0.00, and a value "
    "without ± comes from a single order. What other classes may change is told by the paired comparison.",
    "± seeds tells what another draw of a learner's random numbers, such as its random projection, may change. All "
    "other values are of the first seed.",
    "Arrows tell which direction is better. Bold is the best and underlined the second best of the learners that keep "
    "to the rules: no exemplars kept, learnt task after task, nothing told at test time. All others stand apart under "
    "the reason why; “leaks” means that something is told which nobody knows in use, such as the test sample's task.",
    "Published values are those the GDDSG paper (CVPR 2025) prints, on ViT-B/16 unless another backbone is named. Its "
    "own values of GDDSG come from the released protocol, which leaks; they are shown for orientation, not to "
    "compare with.",
)


def summary_sentences(records: Records, experiments: Mapping[str, Sequence[Contest]]) -> list[str]:
    """What to know first, what was measured, who is best where, and how certain that is."""
    if not records.streams:
        return [_measured(records)]
    leading = _leading(experiments)
    moved = [_steadiest(contest) for contest in _ordered(experiments)]
    told = [text for contest in experiments.get("honesty", leading) if (text := _told(contest))]
    sentences = [*headlines(leading), _measured(records), *(_best(contest) for contest in leading)]
    if moved:
        sentences.append(f"How far the order of classes moves A_N, in points: {'; '.join(moved)}.")
    if told:
        sentences.append(
            f"Nobody is told in use what leaking protocols tell. A_N with the leak and without: {'; '.join(told)}."
        )
    if records.failures:
        sentences.append(f"{counted(len(records.failures), 'run')} failed; see “Runs that failed”.")
    return sentences


def facts(records: Records) -> list[str]:
    """Where the numbers come from, and what to be careful about."""
    runs: list[Stream | Measured] = [*records.streams, *records.failures, *records.measurements]
    found = [
        _listed("Revisions of the code", (run.revision for run in runs)),
        _listed("Versions", (f"{name} {version}" for run in runs for name, version in run.versions.items())),
        _listed("Seeds of the learners", (run.seed for run in runs)),
        *_mixed_features(records.streams),
    ]
    if records.unknown:
        found.append(f"{counted(records.unknown, 'record')} of a kind this report does not know, left out.")
    return [text for text in found if text]


def _measured(records: Records) -> str:
    streams = records.streams
    measured = counted(len(records.measurements), "measurement")
    if not streams and records.measurements:
        datasets = sorted({dataset_name(one.dataset) for one in records.measurements})
        return f"{measured} on {_and(datasets)}, and no stream of tasks."
    if not streams:
        return f"No run has been recorded yet, apart from {counted(len(records.failures), 'failure')}."
    learners = counted(len({stream.learner for stream in streams}), "learner")
    datasets = sorted({dataset_name(stream.dataset) for stream in streams})
    backbones = sorted({stream.backbone for stream in streams})
    orders = counted(len({stream.order for stream in streams}), "class order")
    return (
        f"{counted(len(streams), 'run')} of {learners} over {orders} on {_and(datasets)}, with features of "
        f"{_and(backbones)}: classes come task after task, and after each task every class seen so far is tested."
    ) + (f" Beside them {measured}." if records.measurements else "")


def _leading(experiments: Mapping[str, Sequence[Contest]]) -> list[Contest]:
    """The contests to judge by: of the main table, or else of the first experiment in which learners compete."""
    names = ["main-table", *experiments]
    for name in names:
        found = [contest for contest in experiments.get(name, ()) if len(_ranked(contest)) > 1]
        if found:
            return found
    return []


def _ordered(experiments: Mapping[str, Sequence[Contest]]) -> list[Contest]:
    return [contest for contest in experiments.get("order-robustness", ()) if len(_moved(contest)) > 1]


def _ranked(contest: Contest) -> list[Entry]:
    return [entry for entry in contest.competitors if entry.mean("A_N") is not None]


def _rivals(contest: Contest) -> list[Entry]:
    """Peers and one entry of our own, the default if it was run; all entries where nobody else was."""
    ranked = _ranked(contest)
    own = [entry for entry in ranked if not entry.is_peer]
    ours = contest.reference if contest.reference in own else next(iter(own), None)
    rivals = [entry for entry in ranked if entry.is_peer or entry is ours]
    return rivals if len(rivals) > 1 else ranked


def _best(contest: Contest) -> str:
    first, second, *_ = ranked = _rivals(contest)
    aside = ", variants of our own aside" if len(ranked) < len(_ranked(contest)) else ""
    text = (
        f"{contest.label}: {first.name} is best of {len(ranked)} learners that keep to the rules{aside}, with A_N = "
        f"{_accuracy(first)}, before {second.name} with {_accuracy(second)}. {_certainty(compare(first, second))}"
    )
    names = [entry.learner.lower() for entry in ranked]
    if REFERENCE in names[2:]:
        place = names.index(REFERENCE)
        text += f" {REFERENCE} is number {place + 1} with {_accuracy(ranked[place])}."
    return text


def _accuracy(entry: Entry) -> str:
    return f"{with_interval(entry.estimate('A_N')).removesuffix(ONCE)}\u00a0%"


def _certainty(found: Comparison | None) -> str:
    if found is None or found.over_classes is None:
        return "No class order that both were run on tells how certain that is."
    numbers = (
        f"{found.wins} of {counted(found.count, 'class order')}, {signed(found.difference)} points, "
        f"95 % interval over classes {interval_text(found.over_classes)}"
    )
    if found.over_classes[0] > 0:
        return f"The lead is clear ({numbers})."
    return f"The lead is within what other classes may change ({numbers})."


def _moved(contest: Contest) -> list[Entry]:
    """Competitors by how far the class order moves them, least first."""
    moved = [entry for entry in contest.competitors if entry.order_metrics is not None]
    return sorted(moved, key=lambda entry: (entry.order_metric("spread") or 0.0, entry.name))


def _steadiest(contest: Contest) -> str:
    ranges = [(entry.name, entry.order_metric("spread") or 0.0) for entry in _moved(contest)]
    least = plain(ranges[0][1])
    steady = [name for name, spread in ranges if plain(spread) == least]
    text = f"on {contest.label} {_and(steady)} least, {least}"
    others = ranges[len(steady) :]
    return f"{text}, and {others[-1][0]} most, {plain(others[-1][1])}" if others else text


def _told(contest: Contest) -> str:
    """What being told at test time adds to the best honest result; empty where no run leaks."""
    ranked = _ranked(contest)
    leaking = [entry for entry in contest.entries if entry.streams[0].leaks and entry.mean("A_N") is not None]
    if not ranked or not leaking:
        return ""
    shown = ", ".join(f"{entry.name} {plain(entry.mean('A_N'))}" for entry in leaking)
    return f"on {contest.label} {shown}, honestly {ranked[0].name} {plain(ranked[0].mean('A_N'))}"


def _mixed_features(streams: Iterable[Stream]) -> list[str]:
    """Warns where runs that are shown together used different features."""
    found: dict[tuple[str, str], set[str]] = {}
    for stream in streams:
        found.setdefault((stream.dataset, stream.backbone), set()).add(stream.fingerprint)
    return [
        f"Careful: runs on {dataset_name(dataset)} with {backbone} used {len(prints)} different sets of features, so "
        "their results may differ for that reason alone."
        for (dataset, backbone), prints in sorted(found.items())
        if len(prints) > 1
    ]


def _listed(what: str, values: Iterable[str]) -> str:
    known = sorted({value for value in values if value and value != "(no name)"})
    return f"{what}: {', '.join(known)}." if known else ""


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
