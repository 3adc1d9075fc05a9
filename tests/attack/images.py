"""Damaged and forged image files and feature files by the thousand: each is read right or refused, and nothing else."""

import io
import random
import struct
import tempfile
import traceback
import zipfile
import zlib
from pathlib import Path

import numpy as np
from PIL import Image
from tests.attack.counts import Counts
from tests.photos.tiny_backbone import Means

from gddsg.data.decoding import decode
from gddsg.data.feature_file import feature_file
from gddsg.data.photo import Photo
from gddsg.errors import DataError, PhotoError

FORMATS = {
    "JPEG": ({"mode": "L"}, {"mode": "RGB"}, {"mode": "CMYK"}, {"mode": "RGB", "progressive": True}),
    "PNG": tuple({"mode": mode} for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")),
    "WEBP": ({"mode": "RGB"}, {"mode": "RGBA", "lossless": True}, {"mode": "RGB", "frames": 3}),
    "GIF": ({"mode": "P"}, {"mode": "L"}, {"mode": "P", "frames": 3}),
    "BMP": tuple({"mode": mode} for mode in ("1", "L", "P", "RGB", "RGBA")),
    "TIFF": (
        *({"mode": mode} for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F", "LAB")),
        *({"mode": "RGB", "compression": kind} for kind in ("tiff_lzw", "tiff_adobe_deflate", "jpeg", "packbits")),
        {"mode": "1", "compression": "group4"},
        {"mode": "RGB", "frames": 3},
    ),
    "PPM": tuple({"mode": mode} for mode in ("1", "L", "RGB", "I;16")),
    "JPEG2000": tuple({"mode": mode} for mode in ("L", "RGB", "RGBA")),
    "TGA": (*({"mode": mode} for mode in ("L", "LA", "P", "RGB", "RGBA")), {"mode": "RGB", "compression": "tga_rle"}),
    "ICO": ({"mode": "RGBA", "sizes": [(16, 16)]}, {"mode": "RGB", "sizes": [(16, 16)], "bitmap_format": "bmp"}),
    "AVIF": ({"mode": "RGB", "speed": 10}, {"mode": "RGBA", "speed": 10}),
}
EXTREMES = (0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 20_000, 0x7FFFFFFF, 0xFFFFFFFF)


LARGEST_PEAK = 1_200_000_000
"""Bytes that images may take beyond what there was before: the limit of decoding, and what surrounds it."""


def attack_images(n, seed):
    """Decode and preprocess ``n`` mutated images: right, or refused, and within the memory that is promised."""
    rng, backbone, originals, counts = random.Random(seed), Means(), valid_images(), Counts()
    before = _reset_peak()
    for number in range(n):
        content = mutated_image(originals, rng)
        _try(lambda content=content: _embed(content, backbone), PhotoError, f"image {number}", counts)
    if _peak() - before > LARGEST_PEAK:
        counts.failures.append(f"{_peak() - before:,} bytes of memory")
    return counts


def attack_feature_files(n, seed):
    """Read ``n`` mutated feature files: data that go together, or refused, and within bounds of memory."""
    rng, originals, counts = random.Random(seed), valid_feature_files(), Counts()
    before = _reset_peak()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npz"
        for number in range(n):
            path.write_bytes(mutated_feature_file(originals, rng))
            _try(lambda: _load(path), DataError, f"feature file {number}", counts)
    if _peak() - before > LARGEST_PEAK:
        counts.failures.append(f"{_peak() - before:,} bytes of memory")
    return counts


def valid_images():
    """Small images by format, of every mode that the format knows."""
    return {kind: [_encoded(kind, **options) for options in variants] for kind, variants in FORMATS.items()}


def mutated_image(originals, rng):
    """A valid image, spoilt in one of the ways in which disks, networks and people do it."""
    kind = rng.choice(list(originals))
    content = rng.choice(originals[kind])
    how = rng.choice((flip_bits, cut, zero_block, double_chunk, forge_number, forge_number))
    if rng.random() < 0.1:
        other = rng.choice(originals[rng.choice(list(originals))])
        return content[: rng.randrange(len(content))] + other[rng.randrange(len(other)) :]
    spoilt = how(content, rng)
    return with_right_checksums(spoilt) if kind == "PNG" and rng.random() < 0.8 else spoilt


def valid_feature_files():
    """Small feature files: plain and compressed, of numbers and of names, of features and of codes."""
    rng = np.random.default_rng(0)
    labels = {"train_labels": np.array([0, 1, 2, 0]), "test_labels": np.array([2, 1])}
    names = {part: np.array(list("abc"))[numbers] for part, numbers in labels.items()}
    features = {"train_features": rng.random((4, 3), np.float32), "test_features": rng.random((2, 3), np.float32)}
    codes = {"train_codes": np.full((4, 3), 7, np.uint8), "test_codes": np.full((2, 3), 9, np.uint8)}
    contents = []
    for save in (np.savez, np.savez_compressed):
        for arrays in (
            {**features, **labels, "classes": np.array(["ant", "bee", "cat"])},
            {**features, **names},
            {**codes, **labels, "scale": np.float32(3), "classes": np.array([b"ant", b"bee", b"cat"])},
        ):
            buffer = io.BytesIO()
            save(buffer, **arrays)
            contents.append(buffer.getvalue())
    return contents


def mutated_feature_file(originals, rng):
    """A feature file spoilt as a whole, or one of its arrays, packed again with the right checksum."""
    content = rng.choice(originals)
    how = rng.choice((flip_bits, cut, zero_block, double_chunk, forge_number, forge_text))
    if rng.random() < 0.4:
        return how(content, rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        spoilt = rng.choice(names)
        for name in names:
            new.writestr(name, how(old.read(name), rng) if name == spoilt else old.read(name))
    return buffer.getvalue()


def flip_bits(content, rng):
    data = bytearray(content)
    for _ in range(rng.randrange(1, 20)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def cut(content, rng):
    return content[: rng.randrange(len(content))]


def zero_block(content, rng):
    place = rng.randrange(len(content))
    length = min(rng.randrange(1, 200), len(content) - place)
    return content[:place] + bytes(length) + content[place + length :]


def double_chunk(content, rng):
    place, length = rng.randrange(len(content)), rng.randrange(1, 300)
    return content[: place + length] + content[place:]


def forge_number(content, rng):
    """Most formats say their sizes early, in numbers of two or four bytes."""
    data = bytearray(content)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(min(len(data), rng.choice((32, 128, 1024))))
        value, form = rng.choice(EXTREMES), rng.choice(("<H", ">H", "<I", ">I"))
        piece = struct.pack(form, value & (0xFFFF if form[1] == "H" else 0xFFFFFFFF))
        data[place : place + len(piece)] = piece
    return bytes(data)


def forge_text(content, rng):
    """The header of an array is text: other digits, deep brackets, another type."""
    digits = [place for place in range(min(len(content), 200)) if content[place : place + 1].isdigit()]
    if not digits:
        return flip_bits(content, rng)
    place = rng.choice(digits)
    new = rng.choice(
        (b"9", b"0", b"-1", b"9" * 18, b"9" * 400, b"(" * 300, b"O", b"U99", b"\\d", b"'", b"1e9", b"\xff")
    )
    return content[:place] + new + content[place + rng.choice((1, len(new))) :]


def with_right_checksums(content):
    """A PNG whose pieces have the checksums that belong to them, so that a decoder looks further."""
    data, place = bytearray(content), 8
    while place + 12 <= len(data):
        end = place + 8 + struct.unpack_from(">I", data, place)[0]
        if end + 4 > len(data):
            break
        struct.pack_into(">I", data, end, zlib.crc32(data[place + 4 : end]))
        place = end + 4
    return bytes(data)


def _encoded(kind, mode, frames=1, **options):
    images = [_picture(mode, seed) for seed in range(frames)]
    if frames > 1:
        options |= {"save_all": True, "append_images": images[1:]}
    if kind in {"JPEG", "PNG", "WEBP", "TIFF"}:
        exif = Image.Exif()
        exif[0x0112] = 6
        options["exif"] = exif
    buffer = io.BytesIO()
    images[0].save(buffer, kind, **options)
    return buffer.getvalue()


def _picture(mode, seed):
    rng = np.random.default_rng(seed)
    if mode in {"I;16", "I", "F"}:
        kind = {"I;16": np.uint16, "I": np.int32, "F": np.float32}[mode]
        return Image.fromarray(rng.integers(0, 60_000, (24, 30)).astype(kind))
    if mode == "LAB":
        return Image.new("LAB", (30, 24), (50, 10, 20))
    small = Image.fromarray(rng.integers(0, 256, (4, 5, 4), dtype=np.uint8)).resize((30, 24))
    return small.convert("RGB").convert(mode) if mode in {"P", "CMYK"} else small.convert(mode)


def _try(read, expected, what, counts):
    try:
        right = read()
    except expected:
        counts.count("refused")
    except Exception as error:
        counts.fail(f"{what}: {''.join(traceback.format_exception(error))[-800:]}")
    else:
        counts.count("read") if right else counts.fail(f"{what}: a result that is not finite or has another shape")


def _embed(content, backbone):
    """Whether an image gives a finite input and finite features of the right shapes."""
    photo = Photo("attack")
    side = backbone.preprocess.useful_side
    photo.decoded_bytes(content, side)
    image = backbone.preprocess(photo.image(content, side))
    features = backbone.embed(image[None])
    if len(content) % 8 == 0:  # the whole image too, now and then
        decode(content)
    shapes = image.shape == (3, *backbone.preprocess.size) and features.shape == (1, backbone.feature_dim)
    return shapes and bool(np.isfinite(image).all() and np.isfinite(features).all())


def _load(path):
    """Whether a feature file gives finite features of the right shapes, and labels that name classes."""
    dataset = feature_file(path)
    for features, labels in (
        (dataset.train_features, dataset.train_labels),
        (dataset.test_features, dataset.test_labels),
    ):
        named = set(labels.tolist()) <= set(dataset.classes) | set(range(len(dataset.classes)))
        if features.ndim != 2 or labels.shape != features.shape[:1] or not np.isfinite(features).all() or not named:
            return False
    return all(name.encode() is not None for name in dataset.classes)


def _reset_peak():
    """The memory in use; the peak starts from it again, where the system allows that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _peak()
    return _peak()


def _peak():
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024
