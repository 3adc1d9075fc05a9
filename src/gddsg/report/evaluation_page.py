"""How right a model is about labelled photos, as one page to look at (HTML).

All text from the data is escaped, and the page loads nothing: thumbnails are in it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import os
from collections import Counter
from importlib import resources
from pathlib import Path
from string import Template

from gddsg.data.photo import Photo
from gddsg.errors import DataError, PhotoError
from gddsg.files import replace_file
from gddsg.photos.reports import PhotoEvaluation, WrongPhoto, printable

__all__ = ["check_page_path", "save_evaluation_html"]

_PHOTOS = 200  # thumbnails on a page, which then has a few megabytes
_CLASSES = 40  # rows of the picture; more could not be read
_CELL, _MARGIN = 20, 8  # pixels
_LETTER = 7.0  # pixels that a letter takes, about
_LONGEST_LABEL = 28  # letters
_THUMBNAIL = 224  # pixels of the longer side


def check_page_path(path: str | os.PathLike[str]) -> None:
    """Raise a :class:`DataError` if no page can be written there, as far as can be told without writing."""
    target = Path(path)
    if target.suffix.casefold() not in (".html", ".htm"):
        raise DataError(f"{str(target)!r} was given; expected the name of a page, which ends in .html.")
    if not target.parent.is_dir():
        raise DataError(f"There is no folder {str(target.parent)!r}; expected an existing folder for {target.name!r}.")


def save_evaluation_html(path: str | os.PathLike[str], found: PhotoEvaluation, model: str) -> None:
    """Write a page with accuracies, a picture of what is taken for what, and the photos that were not right.

    Parameters
    ----------
    path : str or path-like
        Of the page; it is written whole or not at all.
    found : PhotoEvaluation
        What there is to show; photos are read from the files it names.
    model : str
        Name of the model, for the title.
    """
    check_page_path(path)
    content = _page(found, model).encode("utf-8", "backslashreplace")
    try:
        replace_file(Path(path), content)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"{os.fspath(path)!r}: the page cannot be written there ({reason}). Expected a file name in an existing "
            "folder you may write to, with room on the disk."
        ) from error


def _page(found: PhotoEvaluation, model: str) -> str:
    parts = resources.files("gddsg.report") / "evaluation_page_files"
    template, style = ((parts / name).read_text("utf-8") for name in ("page.html", "style.css"))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    labels, left_out = _pictured_labels(found)
    return Template(template).substitute(
        policy=f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'sha256-{digest}'",
        style=style,
        title=_text(f"{model}: {_per_cent(found.accuracy)} of {found.photos} photos right"),
        summary=_summary(found),
        confusion_caption=_text(_confusion_caption(len(labels), left_out)),
        confusion=_confusion(found, labels),
        photos_caption=_text(_photos_caption(len(found.wrong))),
        photos="\n".join(_wrong_photo(one) for one in found.wrong[:_PHOTOS]),
        classes="\n".join(
            f"<tr><td>{_text(one.label)}</td><td>{one.photos}</td><td>{one.correct}</td>"
            f"<td>{_per_cent(one.accuracy)}</td></tr>"
            for one in found.classes
        ),
    )


def _text(text: str) -> str:
    return html.escape(printable(text))


def _per_cent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _summary(found: PhotoEvaluation) -> str:
    average = f"{_per_cent(found.average_accuracy)} on average over {len(found.classes)} classes."
    lines = [f"<p>Accuracy {_per_cent(found.accuracy)} of {found.photos} photos, {average}</p>"]
    if found.learnt_photos:
        others = (
            f"accuracy on the {found.unseen_photos} others: {_per_cent(found.unseen_accuracy)}."
            if found.unseen_photos
            else "there are no others, so this says little about new photos."
        )
        learnt = f"The model has learnt {found.learnt_photos} of these photos, or near copies of them"
        lines.append(f'<p class="warning">{learnt}; {others}</p>')
    if found.unlearnt:
        lines.append(f"<p>Never learnt, hence always wrong: {_text(', '.join(found.unlearnt))}.</p>")
    return "\n".join(lines)


# The picture of what is taken for what.


def _pictured_labels(found: PhotoEvaluation) -> tuple[list[str], int]:
    """The classes of the picture in alphabetical order, and how many are left out: those that are confused least."""
    involved = Counter({result.label: 0 for result in found.classes})
    for truth, taken_for, times in found.confusions:
        involved[truth] += times
        involved[taken_for] += times
    ranked = sorted(involved, key=lambda label: (-involved[label], label))
    return sorted(ranked[:_CLASSES]), max(len(ranked) - _CLASSES, 0)


def _confusion_caption(shown: int, left_out: int) -> str:
    which = f"The {shown} classes that are confused most; {left_out} others are left out. " if left_out else ""
    return f"{which}A row is a class, a column what its photos were taken for; the darker, the larger their share."


def _confusion(found: PhotoEvaluation, labels: list[str]) -> str:
    column = {label: i for i, label in enumerate(labels)}
    names = [_shortened(label) for label in labels]
    space = round(max(map(len, names)) * _LETTER) + 2 * _MARGIN
    size = space + len(labels) * _CELL + _MARGIN
    photos = {result.label: result.photos for result in found.classes}
    counts = {(result.label, result.label): result.correct for result in found.classes}
    counts |= {(truth, taken_for): times for truth, taken_for, times in found.confusions}
    cells = [
        _cell(pair, times, times / photos[pair[0]], space + column[pair[1]] * _CELL, space + column[pair[0]] * _CELL)
        for pair, times in counts.items()
        if times and pair[0] in column and pair[1] in column
    ]
    middles = [space + (i + 0.5) * _CELL for i in range(len(labels))]
    rows = [
        f'<text class="row" x="{space - _MARGIN}" y="{middle}">{_text(name)}</text>'
        for middle, name in zip(middles, names, strict=True)
    ]
    columns = [
        f'<text transform="translate({middle} {space - _MARGIN}) rotate(-90)">{_text(name)}</text>'
        for middle, name in zip(middles, names, strict=True)
    ]
    side = len(labels) * _CELL
    field = f'<rect class="field" x="{space}" y="{space}" width="{side}" height="{side}"/>'
    opening = f'<svg width="{size}" height="{size}" role="img" aria-label="What is taken for what">'
    return "\n".join([opening, field, *rows, *columns, *cells, "</svg>"])


def _shortened(label: str) -> str:
    label = printable(label)
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


def _cell(pair: tuple[str, str], times: int, share: float, x: int, y: int) -> str:
    """A square, the less transparent the larger the share of the row; what it stands for shows when pointed at."""
    kind = "right" if pair[0] == pair[1] else "wrong"
    told = _text(f"{pair[0]} taken for {pair[1]}: {times} ({_per_cent(share)})")
    place = f'x="{x + 1}" y="{y + 1}" width="{_CELL - 2}" height="{_CELL - 2}" rx="3"'
    return f'<rect class="{kind}" {place} fill-opacity="{0.15 + 0.85 * share:.2f}"><title>{told}</title></rect>'


# The photos.


def _photos_caption(wrong: int) -> str:
    if not wrong:
        return "All photos were right."
    which = f"the {_PHOTOS} of {wrong} that it is surest of" if wrong > _PHOTOS else "surest first"
    return f"Photos that the model takes for something else than their label says, {which}. Some labels may be wrong."


def _wrong_photo(one: WrongPhoto) -> str:
    learnt = " It has been learnt." if one.learnt else ""
    return (
        f"<li>{_thumbnail(one)}<strong>{_text(one.taken_for)}</strong> ({_per_cent(one.probability)})"
        f"<small>labelled {_text(one.label)}.{learnt}</small><small>{_text(one.name)}</small></li>"
    )


def _thumbnail(one: WrongPhoto) -> str:
    """A small JPEG in the page itself; a photo that is gone, or not in a file, is missing there."""
    photo = Photo.of_file(Path(one.name))
    try:
        image = photo.image(photo.read(), at_least=_THUMBNAIL)
    except PhotoError:
        return '<span class="none">not to be read any more</span>'
    image.thumbnail((_THUMBNAIL, _THUMBNAIL))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=80)
    return f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}">'
