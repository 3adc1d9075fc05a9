"""Stanford Dogs (Khosla et al. 2011): 120 breeds, 12 000 training and 8580 test photos taken from ImageNet."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from gddsg.data.dataset import ImageDataset, not_found, refuse_missing
from gddsg.data.download import download as fetch
from gddsg.data.download import extract
from gddsg.data.mat_file import read_mat
from gddsg.data.photo import Photo
from gddsg.data.reading import read_plain
from gddsg.errors import DataError

__all__ = ["stanford_dogs"]

_PAGE = "http://vision.stanford.edu/aditya86/ImageNetDogs/"
URLS = {name: f"{_PAGE}{name}" for name in ("images.tar", "lists.tar")}  # no checksums are published
_LAYOUT = """
Images/, train_list.mat, test_list.mat
or images.tar and lists.tar, as published
"""
_MAX_LIST_BYTES = 50_000_000


def stanford_dogs(root: Path, download: bool = False) -> ImageDataset:
    """Stanford Dogs in its official division; classes are called as published, ``n02085620-Chihuahua``.

    Parameters
    ----------
    root : Path
        Folder with the data set as published, packed (then it is unpacked there) or unpacked.
    download : bool
        Fetch the archives (0.8 GB) into ``root`` if nothing is there.
    """
    root = Path(root)
    dataset = _find(root)
    if dataset is not None:
        return dataset
    if download:
        for name, url in URLS.items():
            fetch(url, root / name)
    if all((root / name).is_file() for name in URLS):
        for name in URLS:
            extract(root / name, root)
        dataset = _find(root)
    if dataset is None:
        addresses = " and ".join(URLS.values())
        remedy = f"Call again with download=True, or fetch {addresses} and put both files into the folder."
        raise not_found("Stanford Dogs", root, _LAYOUT, _PAGE, remedy)
    return dataset


def _find(root: Path) -> ImageDataset | None:
    folders = (root / name for name in ("Images", "images"))
    images = next((folder for folder in folders if folder.is_dir()), None)
    lists = [root / f"{part}_list.mat" for part in ("train", "test")]
    if images is None or not all(path.is_file() for path in lists):
        return None
    train, test = ([*_listed(path)] for path in lists)
    _refuse_mixture(root, train + test)
    photos = [tuple(Photo.of_file(images / file, _breed(file)) for file, _ in part) for part in (train, test)]
    refuse_missing("Stanford Dogs", photos[0] + photos[1])
    return ImageDataset("stanford-dogs", photos[0], photos[1])


def _listed(path: Path) -> list[tuple[str, int]]:
    """Files, such as ``n02085620-Chihuahua/n02085620_5927.jpg``, with the numbers of their classes."""
    try:
        content = read_mat(read_plain(path, _MAX_LIST_BYTES))
        files, numbers = content["file_list"], [int(number) for number in content["labels"]]
        return list(zip(map(_file_name, files), numbers, strict=True))
    except (OSError, ValueError, KeyError, OverflowError) as error:
        raise DataError(
            f"{str(path)!r} is damaged or not a list of Stanford Dogs ({error}). Expected file_list and labels of "
            f"equal length; fetch {URLS['lists.tar']} again."
        ) from error


def _file_name(name: str | float) -> str:
    if not isinstance(name, str):
        raise ValueError("file_list holds numbers instead of names")
    return name


def _breed(file: str) -> str:
    return PurePosixPath(file).parent.name


def _refuse_mixture(root: Path, listed: list[tuple[str, int]]) -> None:
    """A number is one breed and a breed one number, or the lists are not of one data set."""
    pairs = {(_breed(file), number) for file, number in listed}
    breeds, numbers = ({pair[side] for pair in pairs} for side in (0, 1))
    if not len(pairs) == len(breeds) == len(numbers):
        raise DataError(
            f"{root}: the lists name {len(breeds)} breeds but {len(numbers)} class numbers. Expected one number a "
            f"breed; fetch {URLS['lists.tar']} again."
        )
