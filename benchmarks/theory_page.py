"""The tables of docs/theory.md, from the record of benchmarks/theory_lab.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gddsg.theory import trend

NAMES = {"cifar100": "CIFAR-100", "cub200": "CUB-200", "dogs": "Stanford Dogs"}
_VARIANCES = (
    "generalisation_variance",
    "forgetting_variance",
    "relative_generalisation_variance",
    "relative_forgetting_variance",
)


def page_tables(record: Mapping[str, Any]) -> dict[str, list[str]]:
    """Every table of the page by its name."""
    return {
        "monte carlo": monte_carlo_lines(record["monte_carlo"]),
        "corollary": corollary_lines(record["families"]),
        "groups": group_lines(record["real_graphs"]),
        "brooks": brooks_lines(record["brooks"]),
        "claims": claim_lines(record["claims"]),
        "small graphs": small_graph_lines(record["small_graphs"]),
        "real graphs": real_graph_lines(record["real_graphs"]),
    }


def page_sentences(record: Mapping[str, Any]) -> dict[str, str]:
    """Sentences of the page that hold figures, by name."""
    every = record["every_small_graph"]
    return {
        "every small graph": (
            f"Of the {every['graphs']} connected graphs of two to seven vertices the rule colours "
            f"{100 * every['optimal']:.1f} % with the fewest colours and never takes more than "
            f"{every['most_too_many']} too many; its bound is reached on {100 * every['bound_reached']:.1f} %."
        ),
        "draws": (
            f"{record['monte_carlo']['draws']:,} runs of each of {len(record['monte_carlo']['settings'])} settings"
        ).replace(",", " "),
    }


def monte_carlo_lines(found: Mapping[str, Any]) -> list[str]:
    """Closed forms against simulation: how many settings agree."""
    rows = []
    for name, quantity, form in (
        ("E[F_T], derived and printed", "forgetting", "closed"),
        ("E[G_T], derived", "generalisation", "closed"),
        ("E[G_T], printed", "generalisation", "printed"),
    ):
        off = np.array([deviation(one[quantity], form) for one in found["settings"]])
        within = int((np.abs(off) <= 3).sum())
        size = f"{np.sqrt(np.square(off).mean()):.2f}"
        rows.append([name, str(len(off)), str(within), f"{np.abs(off).max():.1f}", size])
    head = ["closed form", "settings", "within 3 standard errors", "largest deviation", "root mean square"]
    return _table(head, rows)


def deviation(one: Mapping[str, float], form: str) -> float:
    """Standard errors between simulation and a closed form."""
    return (one["mean"] - one[form]) / one["error"]


def corollary_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where variances go as tasks move apart."""
    rows = []
    for family in found:
        columns = {name: [point[name] for point in family["points"]] for name in ("distances", *_VARIANCES)}
        first, last = columns["distances"][0], columns["distances"][-1]
        rows.append([family["name"], f"{first:.3g} → {last:.3g}", *(_course(columns[name]) for name in _VARIANCES)])
    head = ["what happens to the tasks", "Σ_ij d_ij", "Var E[G_T]", "Var E[F_T]", "Var E[G_T] / d̄²", "Var E[F_T] / d̄²"]
    return _table(head, rows)


def _course(values: Sequence[float]) -> str:
    word = trend(values)
    if word in ("grows", "falls"):
        factor = values[-1] / values[0]
        return (
            f"**{word}**, × {factor:.2g}"
            if 1e-9 < factor < 10
            else f"**{word}**, × {factor:.0f}"
            if factor > 1
            else f"**{word}** to 0"
        )
    return word


def group_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Groups of the colouring beside random groups of the same sizes."""
    rows = []
    for one in (one for one in found if one["groups"]):
        for kind, name in (("unit", "of norm 1"), ("plain", "as they are")):
            groups = one["groups"]
            coloured, random = groups[kind]["coloured"], groups[kind]["random"]
            below = (f"{100 * share:.0f} %" for share in groups[kind]["random_below"][1:])
            ratios = (f"{a / b:.2f}" for a, b in zip(coloured, random, strict=True))
            rows.append([NAMES[one["dataset"]], str(groups["groups"]), str(groups["largest"]), name, *ratios, *below])
    head = ["data set", "groups", "largest", "centroids", "mean d", "Var E[G_T]", "Var E[F_T]", "less, G", "less, F"]
    return _table(head, rows)


def brooks_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Probabilities as printed, counted and drawn."""
    names = ("printed", "counted", "drawn", "with_connected", "drawn_with_connected", "drawn_colourable")
    rows = [[str(one["classes"]), f"{one['p']:.3g}", *(f"{one[name]:.4f}" for name in names)] for one in found]
    head = [
        "N",
        "p",
        "printed",
        "neither complete nor odd cycle",
        "drawn",
        "and connected",
        "drawn, connected",
        "χ ≤ Δ, drawn",
    ]
    return _table(head, rows)


def claim_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Up to which p the condition holds with probability 0.99."""
    rows = [[str(one["classes"]), f"{one['printed']:.4f}", f"{one['counted']:.4f}"] for one in found]
    return _table(["N", "largest p with P ≥ 0.99, printed", "counted"], rows)


def small_graph_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Colours of random graphs."""
    rows = []
    for one in found:
        means = (f"{one[name]:.2f}" for name in ("chromatic", "welsh_powell", "bound", "largest_degree"))
        share = f"{100 * one['optimal']:.1f} %"
        rows.append([str(one["classes"]), f"{one['p']:g}", *means, share, str(one["most_too_many"])])
    head = ["N", "p", "χ", "Welsh–Powell", "its bound", "Δ", "optimal", "most colours too many"]
    return _table(head, rows)


def real_graph_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Colours of real similarity graphs."""
    rows = []
    for one in found:
        own = one["colours"]
        chromatic = str(own["fewest"]) if own["fewest"] == own["most"] else f"{own['fewest']} to {own['most']}"
        numbers = (own[name] for name in ("clique", "welsh_powell", "bound", "largest_degree"))
        rows.append(
            [
                f"{NAMES[one['dataset']]}, {one['distance']}",
                str(one["classes"]),
                f"{one['density']:.3f}",
                str(one["components"]),
                chromatic,
                *map(str, numbers),
            ]
        )
    head = ["graph", "classes", "density", "components", "χ", "clique", "Welsh–Powell", "its bound", "Δ"]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [_line(head), "|" + "---|" * len(head), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
