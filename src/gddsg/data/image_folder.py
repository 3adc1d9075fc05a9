"""Folders of photos: a subfolder a class, with or without a division into training and test."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from gddsg.data.dataset import (
    ImageDataset,
    PhotoListing,
    Skipped,
    clean_label,
    of_known_classes,
    refuse_case_twins,
    stratified_split,
)
from gddsg.data.decoding import reads_heic
from gddsg.data.photo import Photo
from gddsg.errors import DataError

__all__ = ["IMAGE_EXTENSIONS", "PhotoListing", "image_folder", "read_photos", "test_photos", "unlabelled_photos"]

IMAGE_EXTENSIONS = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".webp", ".gif", ".bmp"}) | frozenset(
    {".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".avif", ".jp2", ".tga", ".ico"}
)
"""How the names of image files end, in lower case; what is in them decides only when they are read."""

_HEIC = frozenset({".heic", ".heif", ".hif"})  # images indeed, but of a format that takes a package of its own
_NO_HEIC = "HEIC images take another package: pip install 'gddsg[heif]'; or convert it to JPEG"
_LITTER = frozenset({"thumbs.db", "desktop.ini", "__macosx"})
_NO_TEXT = "its name is not valid Unicode; rename it"
_NO_NAME = "a class needs a name; rename the folder"
_NO_FILE = "neither a file nor a folder, or a link to nothing"
_HELD_OUT = ("test", "val", "valid", "validation")  # the first one there is the test part
_PARTS = ("train", *_HELD_OUT)

StrPath = str | os.PathLike[str]


def read_photos(*paths: StrPath, case_sensitive: bool = False) -> PhotoListing:
    """The labelled photos in folders and files, by class and then by path.

    A folder with subfolders is a folder of classes: each subfolder is a class, with all photos at any depth below it.
    A folder of photos without subfolders is one class, and so is a single file; both are named after the folder. Where
    the subfolders are ``train`` and ``test`` (or ``val``, ``valid``, ``validation``), only ``train`` is read.

    A folder one level too high is refused: one in which all photos would be of one class that has no photo but in
    folders of its own, or in which ``train`` or a divided folder would be a class.

    Parameters
    ----------
    paths : path-like
        Folders and image files.
    case_sensitive : bool
        Allow classes whose names differ only in upper and lower case.

    Raises
    ------
    DataError
        If a path does not exist or is one level too high, no photo is found, or two classes differ only in case.
    """
    return _labelled(paths, "train", case_sensitive)


def test_photos(*paths: StrPath, case_sensitive: bool = False) -> PhotoListing:  # noqa: PT028  # is not a test
    """Like :func:`read_photos`, but of a folder parted into training and test it reads the test part."""
    return _labelled(paths, "test", case_sensitive)


def unlabelled_photos(*paths: StrPath, may_be_none: bool = False) -> PhotoListing:
    """All photos in files and folders at any depth, without labels, in the order of ``paths``.

    Parameters
    ----------
    paths : path-like
        Folders and image files.
    may_be_none : bool
        Whether there may be no photo at all, which is an error otherwise.
    """
    reader = _Reader()
    for path in _existing(paths):
        reader.add_unlabelled(path)
    return reader.listing(paths, may_be_none)


def image_folder(
    path: StrPath, test_share: float = 0.2, seed: int = 0, *, case_sensitive: bool = False
) -> ImageDataset:
    """A folder of classes as a data set: in its own division into training and test, else in a seeded one.

    Parameters
    ----------
    path : path-like
        A folder as :func:`read_photos` takes it.
    test_share, seed : float or int
        See :func:`~gddsg.data.dataset.stratified_split`; a folder with a division of its own keeps it.
    case_sensitive : bool
        Allow classes whose names differ only in upper and lower case.
    """
    folder = _existing((path,))[0]
    if not folder.is_dir():
        raise DataError(f"{str(folder)!r} is a file; expected a folder with a subfolder of photos for every class.")
    name = _folder_name(folder)
    parts = _division(_Reader().entries(folder)[0])
    if parts is not None:
        return divided_folder(name, parts["train"], parts["test"], case_sensitive=case_sensitive)
    found = read_photos(folder, case_sensitive=case_sensitive)
    train, test = stratified_split(found.photos, test_share, seed)
    return ImageDataset(name, train, test, found.skipped)


def divided_folder(name: str, train: Path, test: Path, *, case_sensitive: bool = False) -> ImageDataset:
    """The data set in two folders of classes; test photos of a class without training photos are left out."""
    learnt, judged = _classes_in(train), _classes_in(test)
    refuse_case_twins((photo.label for photo in (*learnt.photos, *judged.photos)), case_sensitive)
    kept, strangers = of_known_classes(learnt.photos, judged.photos)
    return ImageDataset(name, learnt.photos, kept, (*learnt.skipped, *judged.skipped, *strangers))


def _labelled(paths: tuple[StrPath, ...], part: str, case_sensitive: bool) -> PhotoListing:
    reader = _Reader()
    for path in _existing(paths):
        reader.add(path, part)
    listing = reader.listing(paths)
    refuse_case_twins((photo.label for photo in listing.photos), case_sensitive)
    return _by_class(listing)


def _classes_in(folder: Path) -> PhotoListing:
    reader = _Reader()
    reader.add_classes(folder)
    return _by_class(reader.listing((folder,)))


def _by_class(listing: PhotoListing) -> PhotoListing:
    photos = sorted(listing.photos, key=lambda photo: (photo.label, photo.name))
    return PhotoListing(tuple(photos), listing.skipped)


class _Reader:
    """Collects photos, each once, and what it had to leave out."""

    def __init__(self) -> None:
        self._photos: dict[tuple[Path, str], Photo] = {}
        self._skipped: dict[str, Skipped] = {}

    def listing(self, paths: tuple[StrPath, ...], may_be_none: bool = False) -> PhotoListing:
        """What was found, or a :class:`DataError` if that is nothing."""
        skipped = tuple(self._skipped[name] for name in sorted(self._skipped))
        if not self._photos and not may_be_none:
            raise _nothing_found(paths, skipped)
        return PhotoListing(tuple(self._photos.values()), skipped)

    def add(self, path: Path, part: str) -> None:
        """The labelled photos of a file or folder."""
        if not _is_text(str(path)):
            self._skip(path, _NO_TEXT)
        elif path.is_dir():
            self._add_folder(path, part)
        elif label := clean_label(_folder_name(path.parent)):
            self._add_file(path, label)
        else:
            self._skip(path, _NO_NAME)

    def add_unlabelled(self, path: Path) -> None:
        """The photos of a file, or at any depth below a folder."""
        if not _is_text(str(path)):
            self._skip(path, _NO_TEXT)
        elif path.is_dir():
            self._add_below(path, "", set(_real(path).parents))
        else:
            self._add_file(path, "")

    def add_classes(self, folder: Path) -> None:
        """The photos of a folder that has a subfolder for every class."""
        classes, files = self.entries(folder)
        self._skip_loose(files)
        here = _real(folder)
        for class_folder in classes:
            self._add_class(class_folder, {here, *here.parents})

    def entries(self, folder: Path) -> tuple[list[Path], list[Path]]:
        """Subfolders and files in a folder, sorted, without what is hidden or litter."""
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            self._skip(folder, f"the folder cannot be opened ({error.strerror or error})")
            return [], []
        folders: list[Path] = []
        files: list[Path] = []
        for entry in entries:
            self._sort_in(entry, folders, files)
        return folders, files

    def _sort_in(self, entry: os.DirEntry[str], folders: list[Path], files: list[Path]) -> None:
        if entry.name.startswith(".") or entry.name.casefold() in _LITTER:
            return
        path = Path(entry.path)
        if not _is_text(entry.name):
            self._skip(path, _NO_TEXT)
        elif _is(entry.is_dir):
            folders.append(path)
        elif _is(entry.is_file):
            files.append(path)
        else:
            self._skip(path, _NO_FILE)

    def _add_folder(self, folder: Path, part: str) -> None:
        folders, files = self.entries(folder)
        parts = _division(folders)
        if parts is not None:
            self._skip_loose(files)
            self._add_named_classes(parts[part])
        elif folders:
            self._add_named_classes(folder)
        else:
            self._add_class(folder, set(_real(folder).parents))

    def _add_named_classes(self, folder: Path) -> None:
        """The photos of a folder that a user takes for one of classes."""
        _refuse_too_high(folder)
        self.add_classes(folder)

    def _add_class(self, folder: Path, above: set[Path]) -> None:
        label = clean_label(_folder_name(folder))
        if not label:
            self._skip(folder, _NO_NAME)
        elif not self._add_below(folder, label, above):
            self._skip(folder, "no photo in it")

    def _add_below(self, folder: Path, label: str, seen: set[Path]) -> int:
        """Number of photos in a folder and at any depth below; links to folders in ``seen`` would lead in circles."""
        count, waiting = 0, [folder]
        while waiting:
            current = waiting.pop()
            if _real(current) in seen:
                self._skip(current, "a link to a folder that is read already or lies above")
                continue
            seen.add(_real(current))
            folders, files = self.entries(current)
            count += sum(self._add_file(file, label) for file in files)
            waiting.extend(reversed(folders))
        return count

    def _add_file(self, path: Path, label: str) -> bool:
        fault = _no_image(path)
        if fault:
            self._skip(path, fault)
            return False
        self._photos.setdefault((path.absolute(), label), Photo.of_file(path, label))
        return True

    def _skip_loose(self, files: list[Path]) -> None:
        for file in files:
            self._skip(file, _no_image(file) or "in no class folder")

    def _skip(self, path: Path, reason: str) -> None:
        name = _printable(str(path))
        self._skipped.setdefault(name, Skipped(name, reason))


def _division(folders: list[Path]) -> dict[str, Path] | None:
    """The folders of the training and the test part, if these subfolders are such parts and nothing else."""
    names = {folder.name.casefold(): folder for folder in folders}
    held_out = [names[name] for name in _HELD_OUT if name in names]
    if not held_out or "train" not in names or len(held_out) + 1 != len(folders):
        return None
    return {"train": names["train"], "test": held_out[0]}


# One level too high: what a user takes for a folder of classes holds the folder of classes.


def _refuse_too_high(folder: Path) -> None:
    """Raise a :class:`DataError` that names the right folder, if this one is too high."""
    below = _only_folder_below(folder)
    if below != folder:
        raise _too_high(folder, below.relative_to(folder).parts[0], [below])
    bare = {one: inside for one in _Reader().entries(folder)[0] if (inside := _folders_alone(one))}
    divided = [one for one, inside in bare.items() if (parts := _division(inside)) and _folders_alone(parts["train"])]
    if divided:
        raise _too_high(folder, divided[0].name, divided)
    named_as_parts = {one.name.casefold(): one for one in bare if one.name.casefold() in _PARTS and _photo_below(one)}
    if named_as_parts:
        part = min(named_as_parts, key=_PARTS.index)
        raise _too_high(folder, named_as_parts[part].name, [named_as_parts[part]])


def _only_folder_below(folder: Path) -> Path:
    """Further down as long as all photos are in one folder that holds none itself; links in circles hold no photo."""
    while True:
        inside = list(islice(filter(_photo_below, _Reader().entries(folder)[0]), 2))
        if len(inside) != 1 or not _folders_alone(inside[0]):
            return folder
        folder = inside[0]


def _folders_alone(folder: Path) -> list[Path]:
    """The subfolders of a folder that holds no photo itself, none where it does."""
    folders, files = _Reader().entries(folder)
    return [] if any(_no_image(file) is None for file in files) else folders


def _photo_below(folder: Path) -> bool:
    """Whether there is a photo in a folder or at any depth below it."""
    waiting, seen = [folder], set()
    while waiting:
        current = waiting.pop()
        if _real(current) not in seen:
            seen.add(_real(current))
            folders, files = _Reader().entries(current)
            if any(_no_image(file) is None for file in files):
                return True
            waiting += folders
    return False


def _too_high(folder: Path, wrong: str, right: list[Path]) -> DataError:
    named = " ".join(f"'{_printable(str(path))}'" for path in right[:3])
    return DataError(
        f"{_printable(str(folder))!r} seems to be one level too high: it would make {wrong!r} a class, but photos are "
        f"in folders further below. Expected a folder with a subfolder of photos for every class: name {named}"
        f"{' and so on' if len(right) > 3 else ''} instead. If {wrong!r} is a class indeed, move its photos into it, "
        "out of the folders there, or name them in a CSV list (path,label)."
    )


def _existing(paths: tuple[StrPath, ...]) -> list[Path]:
    if not paths:
        raise DataError("No path was given; expected at least one folder of photos, or an image file.")
    for path in paths:
        try:
            mode = Path(path).stat().st_mode
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            text = _printable(os.fspath(path))
            raise DataError(f"{text!r} cannot be found ({reason}). Check the spelling and the folder.") from error
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):  # reading a pipe would wait for ever
            raise DataError(f"{os.fspath(path)!r} is a device or a pipe; expected a folder or an image file.")
    return [Path(path) for path in paths]


def _nothing_found(paths: tuple[StrPath, ...], skipped: tuple[Skipped, ...]) -> DataError:
    places = ", ".join(repr(_printable(os.fspath(path))) for path in paths)
    reasons = "".join(f"\n  {left_out.name}: {left_out.reason}" for left_out in skipped[:3])
    more = f"\n  and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    remedy = f"\nLeft out were:{reasons}{more}" if skipped else ""
    return DataError(
        f"No photo was found in {places}. Expected a folder with a subfolder of photos for every class, a folder of "
        f"photos, or an image file.{remedy}"
    )


def _no_image(path: Path) -> str | None:
    """Why a file is not taken for an image, or None if it is."""
    extension = path.suffix.casefold()
    if extension in _HEIC:
        return None if reads_heic() else _NO_HEIC
    return None if extension in IMAGE_EXTENSIONS else "not an image file"


def _folder_name(folder: Path) -> str:
    return folder.name if folder.name not in {"", ".."} else folder.resolve().name


def _real(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


def _is(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except OSError:  # a link that leads to itself
        return False


def _is_text(name: str) -> bool:
    """Whether a name is text; bytes of a name that are not come as half characters, which cannot be stored or shown."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def _printable(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
