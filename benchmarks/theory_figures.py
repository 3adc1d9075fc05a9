"""The figures of docs/theory.md, drawn from the record of benchmarks/theory_lab.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from benchmarks.theory_page import deviation
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gddsg.report.benchmark.drawing import COLOURS, numbered_style, report_style
from gddsg.theory import exception_free_probability, odd_cycle_probability, printed_probability

WIDTH, DPI = 9.0, 110


def write_figures(record: Mapping[str, Any], folder: Path) -> None:
    """Draw all figures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {
        "closed-forms": (3.4, 2, lambda axes: closed_forms(axes, record["monte_carlo"]["settings"])),
        "corollary": (4.6, 2, lambda axes: corollary(axes, record["families"])),
        "bound": (3.4, 2, lambda axes: bound(axes, record["bound"], record["families"])),
        "brooks": (3.4, 3, lambda axes: brooks(axes, record["brooks"])),
        "colours": (3.5, 3, lambda axes: small_graphs(axes, record["small_graphs"])),
    }
    for name, (height, panels, draw) in drawn.items():
        with report_style(), mpl.rc_context({"text.parse_math": True}):  # powers of ten on the axes
            figure = Figure(figsize=(WIDTH, height), layout="constrained")
            FigureCanvasAgg(figure)
            draw(figure.subplots(1, panels))
            figure.savefig(folder / f"{name}.png", dpi=DPI, facecolor="white", metadata={"Software": None})


def closed_forms(axes: Sequence[Axes], settings: Sequence[Mapping[str, Any]]) -> None:
    """Closed forms against simulation, and deviations in standard errors."""
    shown = (("E[F_T]", "forgetting", "closed"), ("E[G_T]", "generalisation", "closed"))
    left, right = axes
    for k, (name, quantity, form) in enumerate(shown):
        values = [(one[quantity][form], one[quantity]["mean"]) for one in settings]
        style = numbered_style(k)
        left.plot(*zip(*values, strict=True), style.marker, color=style.colour, markersize=4, alpha=0.8, label=name)
    ends = np.array([min(left.get_xlim()[0], left.get_ylim()[0]), max(left.get_xlim()[1], left.get_ylim()[1])])
    left.plot(ends, ends, color=COLOURS[6], linewidth=0.8, zorder=0)
    left.set(xscale="symlog", yscale="symlog", xlabel="closed form", ylabel="mean of simulated runs")
    left.set_title(f"{len(settings)} settings, simulated and computed")
    left.legend()
    for k, (name, quantity, form) in enumerate((*shown, ("E[G_T] as printed", "generalisation", "printed"))):
        off = sorted(abs(deviation(one[quantity], form)) for one in settings)
        style = numbered_style(k)
        right.plot(range(1, len(off) + 1), off, style.marker, color=style.colour, markersize=3.5, label=name)
    right.axhline(3, color=COLOURS[6], linewidth=0.8)
    right.set(yscale="log", ylim=(0.01, None), xlabel="settings, by deviation")
    right.set(ylabel="deviation in standard errors")
    right.set_title("The line is at 3 standard errors")
    right.legend(loc="upper left")


def corollary(axes: Sequence[Axes], families: Sequence[Mapping[str, Any]]) -> None:
    """Variances over orders against the sum of squared distances."""
    for axis, quantity, name in zip(axes, ("generalisation", "forgetting"), ("E[G_T]", "E[F_T]"), strict=True):
        for k, family in enumerate(families):
            points = family["points"]
            values = [point[f"{quantity}_variance"] for point in points]
            style = numbered_style(k)
            x = [point["distances"] for point in points]
            axis.plot(x, np.maximum(values, 1e-7), color=style.colour, linestyle=style.dashes, marker=style.marker,
                      markersize=4, linewidth=style.width, label=family["name"])  # fmt: skip
        axis.set(yscale="log", ylim=(7e-8, 0.2), xlim=(0, 132), xlabel="Sum of squared distances, Σ_ij d_ij")
        axis.set(ylabel=f"Variance of {name} over orders")
        axis.set_title(f"{name}; on the lowest line: 0")
    handles, names = axes[0].get_legend_handles_labels()
    figure = axes[0].figure
    figure.legend(handles, names, loc="outside lower center", ncols=2, handlelength=3.2)


def bound(axes: Sequence[Axes], points: Sequence[Sequence[float]], families: Sequence[Mapping[str, Any]]) -> None:
    """Tasks of equal norm: the bound of the variance of E[G_T], and that there is none of E[F_T]'s that vanishes."""
    left, right = axes
    share, variance, limit = (np.array(column) for column in zip(*points, strict=True))
    height = float((limit / np.maximum(share * (1 - share), 1e-12))[share > 0.05].mean())
    x = np.linspace(0, 1, 201)
    left.plot(x, height * x * (1 - x), color=COLOURS[1], label="bound")
    left.plot(share, variance, "o", color=COLOURS[0], markersize=2.5, alpha=0.6, label="random tasks of norm 1")
    left.set(xlabel="Σ_ij d_ij, share of its maximum", ylabel="Variance of E[G_T] over orders")
    left.set_title("Eight tasks: far apart in sum, little variance")
    left.set_ylim(None, 1.25 * height / 4)
    left.legend(loc="upper left", ncols=2)
    clusters = next(family for family in families if "4 and 4" in family["name"])["points"]
    shares = [point["distances"] / 128 for point in clusters]
    right.plot(shares, [p["generalisation_variance"] for p in clusters], "-o", color=COLOURS[0], label="E[G_T]")
    right.plot(shares, [p["forgetting_variance"] for p in clusters], "--s", color=COLOURS[1], label="E[F_T]")
    right.set(xlabel="Σ_ij d_ij, share of its maximum", ylabel="Variance over orders")
    right.set_title("Clusters of 4 and 4 part: the sum cannot be larger")
    right.legend(loc="upper left")


def brooks(axes: Sequence[Axes], cases: Sequence[Mapping[str, Any]]) -> None:
    """The paper's contour, the same counted, and odd cycles."""
    p, n = np.linspace(0.9, 1, 201), np.arange(10, 41)
    for axis, form, name in zip(
        axes, (printed_probability, exception_free_probability), ("as printed", "as counted"), strict=False
    ):
        values = np.array([[form(int(k), float(q)) for q in p] for k in n])
        drawn = axis.contourf(p, n, values, levels=[0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99], cmap="viridis_r")
        axis.set(xlabel="p", ylabel="N")
        axis.set_title(f"P < 0.99 {name}")
        axis.grid(False)
    shown = [(one["p"], one["classes"], one["drawn"]) for one in cases if one["p"] >= 0.9 and one["classes"] >= 10]
    places, shares = [one[:2] for one in shown], [one[2] for one in shown]
    colours = drawn.cmap.with_extremes(over="white")
    axes[1].scatter(
        *zip(*places, strict=True), c=shares, cmap=colours, norm=drawn.norm, edgecolors=COLOURS[1], s=26, clip_on=False,
        zorder=5,
    )  # fmt: skip
    axes[0].figure.colorbar(drawn, ax=list(axes[:2]), shrink=0.9)
    _odd_cycles(axes[2])


def _odd_cycles(axis: Axes) -> None:
    p = np.linspace(0.01, 0.99, 99)
    for k, n in enumerate((5, 7, 9)):
        style = numbered_style(k)
        axis.plot(p, [odd_cycle_probability(n, float(q)) for q in p], color=style.colour, label=f"N = {n}")
        printed = [q ** (2 * n) * (1 - q) ** (n**2 - 2 * n) for q in p]
        axis.plot(p, printed, color=style.colour, linestyle=":")
    axis.set(yscale="log", ylim=(1e-16, 10), xlabel="p", ylabel="P(odd cycle)")
    axis.set_title("Odd cycles: counted —, printed ···")
    axis.legend(fontsize=7.5, ncols=3, loc="upper center", columnspacing=1, handlelength=1.2)


def small_graphs(axes: Sequence[Axes], rows: Sequence[Mapping[str, Any]]) -> None:
    """Colours of random graphs."""
    shown = {
        "chromatic": "chromatic number χ",
        "welsh_powell": "Welsh–Powell",
        "bound": "its bound",
        "largest_degree": "Δ (Brooks)",
    }
    for axis, n in zip(axes, sorted({row["classes"] for row in rows}), strict=True):
        chosen = [row for row in rows if row["classes"] == n]
        for k, (key, name) in enumerate(shown.items()):
            style = numbered_style(k)
            axis.plot([row["p"] for row in chosen], [row[key] for row in chosen], color=style.colour, label=name,
                      linestyle=style.dashes, marker=style.marker, markersize=4)  # fmt: skip
        axis.set(xlabel="p", ylabel="Colours, mean of 200 graphs", ylim=(0, None))
        axis.set_title(f"{n} classes")
    handles, names = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(handles, names, loc="outside lower center", ncols=4, handlelength=3.2)
