"""Every learner looks like itself in every figure, and a legend leaves room for its plot."""

from pathlib import Path

import pytest

from gddsg.bench import experiment_files, read_experiment
from gddsg.learners import LEARNERS
from gddsg.report.benchmark.drawing import add_legend, panel, report_style
from gddsg.report.benchmark.looks import LOOKS, learner_styles

EXPERIMENTS = Path(__file__).parents[3] / "experiments"


def shipped():
    """Name and method of every learner in the experiments."""
    specs = [spec for path in experiment_files(EXPERIMENTS) for spec in read_experiment(path).learners]
    return list(dict.fromkeys((spec.name, spec.method) for spec in specs))


def pair(style):
    return style.colour, style.marker


def test_every_method_has_a_colour_and_marker_of_its_own():
    methods = {method for _, method in shipped()} | set(LEARNERS)
    assert methods <= set(LOOKS)
    assert len({look.colour for look in LOOKS.values()}) == len(LOOKS)
    assert len({pair(look) for look in LOOKS.values()}) == len(LOOKS)


def test_no_two_learners_of_a_report_share_colour_and_marker():
    styles = learner_styles(shipped())
    assert len(styles) > 80
    assert len({pair(style) for style in styles.values()}) == len(styles)


def test_methods_look_alike_in_every_report():
    everything = learner_styles([("klda on roots", "klda"), *((name, name) for name in LEARNERS)])
    for name in LEARNERS:
        alone = learner_styles([("a stranger", "module:Stranger"), (name, name)])
        assert pair(alone[name]) == pair(everything[name]) == pair(LOOKS[name])
        assert alone[name].dashes == LOOKS[name].dashes


def test_variants_of_a_peer_keep_its_colour():
    styles = learner_styles(shipped())
    for name in ("slda on roots", "slda, relative shrinkage", "slda, relative shrinkage, on roots"):
        assert styles[name].colour == LOOKS["slda"].colour
    assert styles["gddsg on plain features"].colour != LOOKS["gddsg"].colour
    assert styles["gddsg"].width > styles["slda"].width


def test_strangers_get_what_is_left_and_the_same_each_time():
    strangers = [(f"stranger {k}", f"module:Stranger{k}") for k in range(600)]
    styles = learner_styles([("gddsg", "gddsg"), *strangers])
    assert styles == learner_styles([("gddsg", "gddsg"), *strangers])
    first = [pair(styles[name]) for name, _ in strangers[:500]]
    assert len(set(first)) == len(first)
    assert not set(first) & {pair(look) for look in LOOKS.values()}
    assert len({styles[name].colour for name, _ in strangers[:9]} - {look.colour for look in LOOKS.values()}) == 9


@pytest.mark.parametrize("count", [1, 2, 7, 12, 13, 19, 43])
@pytest.mark.parametrize("words", ["slda", "ranpac on roots", "gddsg, paper's groups, our discriminant, hard decision"])
def test_a_legend_is_never_taller_than_half_its_plot_nor_wider_than_the_figure(count, words):
    names = [f"{k} {words} {k}" for k in range(count)]
    with report_style():
        figure, axes = panel("A title", legend=names)
        for name in names:
            axes.plot([0, 1], [0, 1], label=name)
        add_legend(figure, axes)
        figure.draw_without_rendering()
        (legend,) = figure.legends
        drawn, plot, page = legend.get_window_extent(), axes.get_window_extent(), figure.bbox
    assert drawn.height <= 0.5 * plot.height + 25  # the padding around it
    assert drawn.y1 < plot.y0
    assert page.x0 - 1 <= drawn.x0
    assert drawn.x1 <= page.x1 + 1
    shown = [text.get_text() for text in legend.get_texts()]
    assert len(set(shown)) == count
