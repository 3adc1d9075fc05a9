"""A set of images that needs no download: letters and digits in the typefaces that come with matplotlib.

Letters are a hard case for telling classes apart: O, 0 and o, or l, 1 and I, differ by little, and the test photos
show them in typefaces that training never saw. The pixels are the same on every run; another release of Pillow, numpy
or FreeType may draw them slightly differently.
"""

from __future__ import annotations

import functools
import hashlib
import io
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from gddsg.data.photo import Photo
from gddsg.errors import DataError, InputError, MissingExtraError

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
Split = Literal["train", "test"]

# Every style (upright, bold, slanted, both) and every family is on both sides, yet no typeface is.
TRAIN_TYPEFACES = (
    "DejaVuSans",
    "DejaVuSans-Oblique",
    "DejaVuSans-BoldOblique",
    "DejaVuSansMono",
    "DejaVuSansMono-Bold",
    "DejaVuSansMono-BoldOblique",
    "DejaVuSerif-Bold",
    "DejaVuSerif-Italic",
    "STIXGeneralBol",
    "STIXGeneralItalic",
)
"""The typefaces of the training photos, by file name without ``.ttf``."""

TEST_TYPEFACES = (
    "DejaVuSans-Bold",
    "DejaVuSansMono-Oblique",
    "DejaVuSerif",
    "DejaVuSerif-BoldItalic",
    "STIXGeneral",
    "STIXGeneralBolIta",
)
"""The typefaces of the test photos; none of them is among those of the training photos."""

_LATIN = "abcdefghijklmnopqrstuvwxyz"
# Left out are the capitals and the omicron that nearly every typeface draws like their Latin counterparts, Α like A.
_GREEK_CAPITALS = {
    "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ",
    "Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω",
}  # fmt: skip
_GREEK_SMALL = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ",
    "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ",
    "final sigma": "ς", "tau": "τ", "upsilon": "υ", "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω",
    "sampi": "ϡ",
}  # fmt: skip
_GREEK_SYMBOLS = {"epsilon": "ϵ", "theta": "ϑ", "kappa": "ϰ", "pi": "ϖ", "rho": "ϱ", "phi": "ϕ"}

GLYPHS: dict[str, str] = {
    **{f"digit {digit}": str(digit) for digit in range(10)},
    **{f"capital {letter.upper()}": letter.upper() for letter in _LATIN},
    **{f"small {letter}": letter for letter in _LATIN},
    **{f"Greek capital {name}": letter for name, letter in _GREEK_CAPITALS.items()},
    **{f"Greek small {name}": letter for name, letter in _GREEK_SMALL.items()},
    **{f"Greek symbol {name}": letter for name, letter in _GREEK_SYMBOLS.items()},
}
"""Every class and its character. Labels differ by more than case, so each can be a folder on any file system."""

_CAPITAL_HEIGHT = 0.5
_BASELINE = 0.68
_SMALLEST = 16
_OVERSAMPLING = 2


def glyphs(
    n_train: int = 20, n_test: int = 10, seed: int = 0, classes: Sequence[str] | None = None
) -> tuple[tuple[Photo, ...], tuple[Photo, ...]]:
    """Training and test photos of the classes, all in memory.

    Parameters
    ----------
    n_train, n_test : int
        Photos a class.
    seed : int
        Another seed gives other photos of the same kind.
    classes : sequence of str or None
        Labels out of :data:`GLYPHS`; None means all of them.

    Returns
    -------
    train, test : photos of 96 × 96 pixels, class by class. The i-th photo of a class does not depend on how many
        photos or which other classes are asked for.

    Raises
    ------
    InputError
        If there is no such class or a number is negative.
    MissingExtraError, DataError
        If matplotlib, or a typeface it normally brings along, is not there.

    Examples
    --------
    >>> train, test = glyphs(n_train=2, n_test=1, classes=["capital O", "digit 0"])
    >>> [photo.label for photo in train]
    ['capital O', 'capital O', 'digit 0', 'digit 0']
    >>> test[1].pixels.shape
    (96, 96, 3)
    """
    labels = _checked_labels(classes)
    _check_not_negative(n_train=n_train, n_test=n_test, seed=seed)
    return tuple(_photos(labels, "train", n_train, seed)), tuple(_photos(labels, "test", n_test, seed))


def write_glyphs(
    folder: str | os.PathLike[str],
    n_train: int = 20,
    n_test: int = 10,
    seed: int = 0,
    classes: Sequence[str] | None = None,
) -> None:
    """Write the photos of :func:`glyphs` as ``train/<label>/<number>.png`` and ``test/<label>/<number>.png``.

    The folder is made where there is none. It must not yet hold files in ``train`` or ``test``, which would mix with
    the new ones unnoticed; then, and where the disk refuses, a :class:`~gddsg.errors.DataError` is raised.
    """
    labels = _checked_labels(classes)
    _check_not_negative(n_train=n_train, n_test=n_test, seed=seed)
    try:
        for split in ("train", "test"):
            _check_unused(Path(folder) / split)
        _write(Path(folder) / "train", _photos(labels, "train", n_train, seed))
        _write(Path(folder) / "test", _photos(labels, "test", n_test, seed))
    except OSError as error:
        message = f"{os.fspath(folder)}: the photos cannot be written there ({error.strerror or error}). "
        message += "Expected a folder you may write to on a disk with room for them; free some space or choose another."
        raise DataError(message) from error


def render_glyph(label: str, typeface: str, seed: int, size: int = 96) -> Pixels:
    """One photo of a class: slanted, shifted, thinned or thickened, blurred, coloured and noisy, all by the seed.

    Parameters
    ----------
    label : str
        A class, one of :data:`GLYPHS`.
    typeface : str
        One of :data:`TRAIN_TYPEFACES` or :data:`TEST_TYPEFACES`.
    seed : int
        Not negative.
    size : int
        Width and height in pixels.

    Returns
    -------
    ``(size, size, 3)`` uint8.
    """
    _check_not_negative(seed=seed)
    rng = np.random.default_rng(seed)
    return _coloured(_distorted(_drawn(label, typeface, size), rng), rng)


def clean_glyph(label: str, typeface: str, size: int = 96) -> Pixels:
    """The character without any distortion, ``(size, size)`` uint8: 0 where there is paper, 255 where there is ink."""
    return np.asarray(_drawn(label, typeface, size).reduce(_OVERSAMPLING))


def _photos(labels: Iterable[str], split: Split, n: int, seed: int) -> Iterator[Photo]:
    typefaces = TRAIN_TYPEFACES if split == "train" else TEST_TYPEFACES
    for label in labels:
        # all typefaces come in turn, in an order of each class's own: few photos still show different ones
        turns = np.random.default_rng(_hashed(label, split, seed)).permutation(len(typefaces))
        for i in range(n):
            pixels = render_glyph(label, typefaces[turns[i % len(turns)]], _hashed(label, split, seed, i))
            yield Photo.of_pixels(pixels, label, f"glyphs/{split}/{label}/{i}")


def _hashed(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")


def _drawn(label: str, typeface: str, size: int) -> Image.Image:
    """The character in white on black, larger than asked for so that distorting it leaves no jagged edges."""
    (label,) = _checked_labels([label])
    if size < _SMALLEST:
        raise InputError(f"Got the size {size}, expected at least {_SMALLEST} pixels; ask for a larger one.")
    side = size * _OVERSAMPLING
    font = _font(typeface, round(_em_of_capital(typeface) * _CAPITAL_HEIGHT * side))
    left, _, right, _ = font.getbbox(GLYPHS[label], anchor="ls")
    image = Image.new("L", (side, side))
    # the baseline and the size of the type stay where they are: they alone tell O from o and P from p
    start = ((side - left - right) / 2, _BASELINE * side)
    ImageDraw.Draw(image).text(start, GLYPHS[label], fill=255, font=font, anchor="ls")
    return image


@functools.cache
def _em_of_capital(typeface: str) -> float:
    """Size of type that gives capitals the height 1; it differs, and a small o must not reach a capital O."""
    trial = 1000
    _, top, _, bottom = _font(typeface, trial).getbbox("H", anchor="ls")
    return trial / (bottom - top)


@functools.lru_cache(maxsize=64)
def _font(typeface: str, em: int) -> ImageFont.FreeTypeFont:
    known = TRAIN_TYPEFACES + TEST_TYPEFACES
    if typeface not in known:
        raise InputError(f"Got the typeface {typeface!r}, expected one of {', '.join(known)}; choose one of these.")
    path = _typeface_folder() / f"{typeface}.ttf"
    try:
        # by its content: given a path that is missing, Pillow takes any font of that name the system has
        content = io.BytesIO(path.read_bytes())
        # the basic layout is in every build of Pillow, and single characters need no other
        return ImageFont.truetype(content, em, layout_engine=ImageFont.Layout.BASIC)
    except OSError as error:
        message = f"{path}: the typeface cannot be read ({error}). Expected the fonts that matplotlib comes with; "
        message += "reinstall it by pip install --force-reinstall matplotlib"
        raise DataError(message) from error


def _typeface_folder() -> Path:
    try:
        import matplotlib
    except ImportError as error:
        message = "The typefaces of the glyphs come with matplotlib, which is not installed; pip install matplotlib"
        raise MissingExtraError(message) from error
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"


def _distorted(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Ink of the final size: turned, sheared, stretched, shifted, of another stroke, blurred."""
    size = image.width // _OVERSAMPLING
    reach = round(rng.uniform(-1.0, 1.5) * size / 96)
    stroke = ImageFilter.MaxFilter if reach > 0 else ImageFilter.MinFilter
    image = image.filter(stroke(2 * abs(reach) + 1))
    image = image.transform(image.size, Image.Transform.AFFINE, _affine(image.width, rng), Image.Resampling.BICUBIC)
    return image.reduce(_OVERSAMPLING).filter(ImageFilter.GaussianBlur(rng.uniform(0.0, 0.011) * size))


def _affine(side: int, rng: np.random.Generator) -> tuple[float, ...]:
    """Six coefficients that map a place in the new image to its place in the old one, about the middle."""
    angle, shear = math.radians(rng.uniform(-9, 9)), rng.uniform(-0.15, 0.15)
    scale = rng.uniform(0.92, 1.08) * np.exp(np.array([1, -1]) * rng.uniform(-0.06, 0.06))
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    back = np.linalg.inv(turn @ np.array([[1, shear], [0, 1]]) @ np.diag(scale))
    middle = np.full(2, side / 2)
    shift = rng.uniform(-0.05, 0.05, 2) * side
    offset = middle - back @ (middle + shift)
    return (*map(float, back[0]), float(offset[0]), *map(float, back[1]), float(offset[1]))


def _coloured(ink: Image.Image, rng: np.random.Generator) -> Pixels:
    """Ink on paper of two colours that differ in lightness, under uneven light, with the noise of a sensor."""
    amount = np.asarray(ink, dtype=np.float64)[:, :, None] / 255
    dark = rng.uniform(10, 110)
    light = rng.uniform(dark + 70, 245)
    tints = rng.uniform(-30, 30, (2, 3))
    inks = np.array([[dark], [light]]) + tints
    paper, pen = inks if rng.random() < 0.3 else inks[::-1]
    pixels = paper * (1 - amount) + pen * amount + _uneven_light(ink.width, rng)
    pixels += rng.normal(0, rng.uniform(1, 14), pixels.shape)
    return np.asarray(pixels.clip(0, 255).round(), dtype=np.uint8)


def _uneven_light(size: int, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Light that grows along one direction, ``(size, size, 1)``."""
    along = np.linspace(-1, 1, size)
    right, down = rng.uniform(-15, 15, 2)
    return np.asarray(right * along[None, :] + down * along[:, None])[:, :, None]


def _checked_labels(classes: Sequence[str] | None) -> tuple[str, ...]:
    labels = tuple(GLYPHS) if classes is None else (classes,) if isinstance(classes, str) else tuple(classes)
    for label in labels:
        if label not in GLYPHS:
            message = f"Got the class {label!r}, expected one such as 'digit 0', 'capital O', 'small o' or "
            message += "'Greek small alpha'; list(gddsg.data.glyphs.GLYPHS) shows them all."
            raise InputError(message)
    if len(set(labels)) < len(labels):
        twice = next(label for i, label in enumerate(labels) if label in labels[:i])
        raise InputError(f"The class {twice!r} is asked for twice, expected each class once; leave one out.")
    return labels


def _check_not_negative(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 0:
            raise InputError(f"Got {name}={number}, expected 0 or more; pass a number that is not negative.")


def _check_unused(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()):
        message = f"{folder}: there are files already, expected an empty folder or none; delete it or choose another."
        raise DataError(message)


def _write(folder: Path, photos: Iterable[Photo]) -> None:
    for photo in photos:
        if photo.pixels is not None:
            path = folder / photo.label / f"{int(photo.name.rsplit('/', 1)[1]):05d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(photo.pixels).save(path)
