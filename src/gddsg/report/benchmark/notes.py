"""What to bear in mind of some data sets wherever their figures stand."""

from __future__ import annotations

from collections.abc import Iterable

from gddsg.report.benchmark.published import dataset_key

_NOTES = {
    "dogs": "Stanford Dogs was drawn from ImageNet, on which the backbone was trained, so that its classes are not new "
    "to the network.",
}


def notes_on(datasets: Iterable[str]) -> list[str]:
    """Notes on data sets, each once.

    Parameters
    ----------
    datasets : iterable of str
        Names as records have them or as tables show them.

    Returns
    -------
    list of str
        Sentences; empty for data sets that are what they seem.

    Examples
    --------
    >>> [note[:13] for note in notes_on(["cub200", "dogs", "Stanford Dogs"])]
    ['Stanford Dogs']
    """
    keys = {dataset_key(dataset.lower().replace(" ", "-")) for dataset in datasets}
    return [note for key, note in _NOTES.items() if key in keys]
