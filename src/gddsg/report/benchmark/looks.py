"""The look of every learner: a colour and a marker of its own, the same in all figures of all reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

from gddsg.report.benchmark.drawing import COLOURS, MARKERS, STRONG_WIDTH, Style, numbered_style
from gddsg.report.benchmark.summary import OWN_METHODS, REFERENCE

_ORDER = (
    "gddsg", "discriminant", "simplecil", "ranpac", "lr_rgda", "anacp", "fecam", "slda", "layup", "randumb",
    "acil", "gacl", "klda", "loranpac", "nearest_reservoir", "finetune", "l2p", "dualprompt", "coda_prompt", "adam",
    "ease", "ranpac_tuned", "gddsg_tuned", "apd", "apd_fix", "halrp", "task-probe", "gddsg_paper", "joint_ridge",
    "joint_logistic", "released-recipe",
)  # fmt: skip

LOOKS = {method: numbered_style(place) for place, method in enumerate(_ORDER)}
"""Of every method that this package has. One that is added takes a place at the end, so that no other changes."""

_Pair = tuple[str, str]


def learner_styles(learners: Iterable[tuple[str, str]]) -> dict[str, Style]:
    """A look for every learner of a report; no two share both colour and marker.

    What is called like its method looks as :data:`LOOKS` says, whatever else is shown. A variant of a peer has the
    colour of that peer, with another marker. Variants of our own, which many figures compare, and methods that the
    table does not know take what is left, colours of their own first, in the order given.

    Parameters
    ----------
    learners : iterable of tuple of str and str
        Name and method of each, in the order of the report.
    """
    methods = dict(learners)
    found = {name: LOOKS[name.lower()] for name in methods if name.lower() in LOOKS}
    taken = {(look.colour, look.marker) for look in LOOKS.values()}
    for name, method in methods.items():
        if name not in found:
            style = next(_left_for(method.lower(), taken), numbered_style(len(found)))
            taken.add((style.colour, style.marker))
            found[name] = style
    strong = [name for name in found if name.lower() == REFERENCE]
    return found | {name: replace(found[name], width=STRONG_WIDTH) for name in strong}


def _left_for(method: str, taken: set[_Pair]) -> Iterator[Style]:
    """Looks that a learner of that method may have, the best first."""
    peer = method in LOOKS and method not in OWN_METHODS
    if peer:
        colour, first = COLOURS.index(LOOKS[method].colour), MARKERS.index(LOOKS[method].marker)
        yield from _free(((colour, first + step) for step in range(1, len(MARKERS))), taken)
    # colours that no method has, then those of methods from the back of the table, which seldom share a figure
    colours = [*range(len(_ORDER), len(COLOURS)), *reversed(range(len(_ORDER)))]
    yield from _free(((colour, colour + step) for step, colour in product(range(len(MARKERS)), colours)), taken)


def _free(places: Iterable[tuple[int, int]], taken: set[_Pair]) -> Iterator[Style]:
    for colour, marker in places:
        style = replace(numbered_style(marker), colour=COLOURS[colour], marker=MARKERS[marker % len(MARKERS)])
        if (style.colour, style.marker) not in taken:
            yield style
