"""Caltech-UCSD Birds-200-2011 (Wah et al. 2011): 200 species, 5994 training and 5794 test photos."""

from __future__ import annotations

from pathlib import Path

from gddsg.data.dataset import ImageDataset, not_found, refuse_missing
from gddsg.data.download import download as fetch
from gddsg.data.download import extract
from gddsg.data.image_folder import divided_folder
from gddsg.data.photo import Photo
from gddsg.data.reading import read_plain
from gddsg.errors import DataError

__all__ = ["cub200"]

URL = "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz"
MD5 = "97eceeb196236b17998738112f37df78"
_PAGE = "https://www.vision.caltech.edu/datasets/cub_200_2011/"
_LAYOUT = """
CUB_200_2011/images/, images.txt, image_class_labels.txt, train_test_split.txt, classes.txt
or CUB_200_2011.tgz, as published
or train/ and test/ with a folder of photos for every class
"""
_MAX_TABLE_BYTES = 50_000_000
_TABLES = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")


def cub200(root: Path, download: bool = False) -> ImageDataset:
    """CUB-200-2011 in its official division; classes are called as published, ``001.Black_footed_Albatross``.

    Parameters
    ----------
    root : Path
        Folder with the data set as published, packed (then it is unpacked there) or unpacked, or with the folders
        ``train`` and ``test`` of its common rearrangement.
    download : bool
        Fetch the archive (1.1 GB) into ``root`` if nothing is there.
    """
    root = Path(root)
    dataset = _find(root)
    if dataset is not None:
        return dataset
    archive = root / "CUB_200_2011.tgz"
    if download:
        fetch(URL, archive, MD5)
    if archive.is_file():
        extract(archive, root)
        dataset = _find(root)
    if dataset is None:
        remedy = f"Call again with download=True, or fetch {URL} and put the file into the folder."
        raise not_found("CUB-200-2011", root, _LAYOUT, _PAGE, remedy)
    return dataset


def _find(root: Path) -> ImageDataset | None:
    for folder in (root, root / "CUB_200_2011"):
        if all((folder / name).is_file() for name in _TABLES):
            return _official(folder)
        if (folder / "train").is_dir() and (folder / "test").is_dir():
            return divided_folder("cub200", folder / "train", folder / "test", case_sensitive=True)
    return None


def _official(folder: Path) -> ImageDataset:
    images, labels, training, classes = (_table(folder / name) for name in _TABLES)
    parts: dict[str, list[Photo]] = {"0": [], "1": []}
    try:
        for number, image in images.items():
            photo = Photo.of_file(folder / "images" / image, classes[labels[number]])
            parts[training[number]].append(photo)
    except KeyError as error:
        raise DataError(
            f"{folder}: the tables {', '.join(_TABLES)} do not fit together ({error} is missing in one of them). "
            "Expected those of one archive; delete them and unpack it again."
        ) from error
    refuse_missing("CUB-200-2011", (*parts["1"], *parts["0"]))
    return ImageDataset("cub200", tuple(parts["1"]), tuple(parts["0"]))


def _table(path: Path) -> dict[str, str]:
    """Lines of a number and a value, by number."""
    table: dict[str, str] = {}
    try:
        lines = read_plain(path, _MAX_TABLE_BYTES).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{str(path)!r} cannot be read ({error}). Unpack the archive again.") from error
    for place, line in enumerate(lines, start=1):
        match line.split(maxsplit=1):
            case [number, value]:
                table[number] = value.strip()
            case [_]:
                raise DataError(f"{path}, line {place}: {line!r} was found; expected a number and a value.")
    return table
