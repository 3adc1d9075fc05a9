"""What is kept in the cache folder, damaged: exported networks, and the database of features.

Half of the mutations hit a network, half the database. Afterwards the network must give the right features, by being
exported anew, and the cache the right vector or none; anything else is a failure.
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.attack.counts import Counts

from gddsg.backbones import FeatureCache, load_backbone
from gddsg.backbones.kept_network import kept_session
from gddsg.backbones.self_test import built_in_picture
from gddsg.errors import GddsgError
from gddsg.onnx_runtime import onnx_bytes

REAL_SHARE = 100  # of so many mutations of networks one hits the real network, which takes seconds to export
VECTORS, WIDTH = 60, 48
BACKBONES = ("0123456789abcdef", "fedcba9876543210")


def attack_networks_and_caches(n: int, seed: int) -> Counts:
    """Damage networks and caches ``n`` times."""
    rng, counts = np.random.default_rng(seed), Counts()
    with tempfile.TemporaryDirectory() as folder:
        networks = _Networks(Path(folder, "networks"))
        cache = _Cache(Path(folder, "cache"))
        for i in range(n):
            real = i % (2 * REAL_SHARE) == 0
            attack = cache.attack if i % 2 else networks.attack_real if real else networks.attack_tiny
            try:
                outcome = attack(rng)
            except GddsgError:
                counts.count("refused")
            except Exception as error:
                counts.fail(f"{type(error).__name__}: {error}")
            else:
                counts.fail(f"{attack.__name__}: a wrong answer") if outcome == "wrong" else counts.count(outcome)
    return counts


class _Networks:
    """Two tiny networks for the bulk, the real one for some; all through the functions that users run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exports = 0
        self.contents = {name: _tiny_network(seed) for seed, name in enumerate(("first", "second"))}
        self.probe = np.linspace(-1, 1, 8, dtype=np.float32)[None]
        self.right = {name: self._ask(name) for name in self.contents}
        self.whole = {path: path.read_bytes() for path in folder.iterdir()}
        self.real_folder = folder.parent / "real"
        self.real_right: Any = None

    def attack_tiny(self, rng: np.random.Generator) -> str:
        for path, content in self.whole.items():
            path.write_bytes(content)
        path, other = rng.permutation(sorted(self.whole))
        path.write_bytes(mutate(self.whole[path], self.whole[other], rng))
        before = self.exports
        if not np.array_equal(self._ask(path.stem), self.right[path.stem]):
            return "wrong"
        return "exported anew" if self.exports > before else "right"

    def attack_real(self, rng: np.random.Generator) -> str:
        if self.real_right is None:
            self.real_right = self._ask_real()
        (path,) = self.real_folder.iterdir()
        whole = path.read_bytes()
        path.write_bytes(mutate(whole, whole[::-1], rng))
        right = np.array_equal(self._ask_real(), self.real_right)
        return "exported anew" if right and path.read_bytes() == whole else "wrong"

    def _ask(self, name: str) -> Any:
        def export() -> bytes:
            self.exports += 1
            return self.contents[name]

        return kept_session(self.folder, name, export, lambda session: None).run(None, {"images": self.probe})[0]

    def _ask_real(self) -> Any:
        backbone = load_backbone("efficientnet-lite0", "cpu", self.real_folder)
        return backbone.embed(backbone.preprocess(built_in_picture())[None])


class _Cache:
    """A cache with vectors of two backbones; every third time rows are forged in it instead of bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        self.vectors = {
            (rng.bytes(32), backbone): rng.normal(size=WIDTH).astype(np.float32)
            for backbone in BACKBONES
            for _ in range(VECTORS)
        }
        with FeatureCache(folder) as cache:
            for (key, backbone), vector in self.vectors.items():
                cache.put([(key, vector)], backbone)
        self.path = cache.path
        self.whole = self.path.read_bytes()

    def attack(self, rng: np.random.Generator) -> str:
        for path in self.folder.iterdir():
            path.unlink()
        self.path.write_bytes(self.whole)
        if rng.random() < 1 / 3:
            self._forge(rng)
        else:
            self.path.write_bytes(mutate(self.whole, self.whole[::-1], rng))
        return self._judge(rng)

    def _judge(self, rng: np.random.Generator) -> str:
        given = 0
        with FeatureCache(self.folder) as cache:
            for (key, backbone), expected in self.vectors.items():
                found = cache.get(key, backbone)
                if found is not None and not np.array_equal(found, expected):
                    return "wrong"
                given += found is not None
            cache.sizes()
            # and it goes on working, or says why not
            new, vector = rng.bytes(32), rng.normal(size=WIDTH).astype(np.float32)
            cache.put([(new, vector)], BACKBONES[0])
            found = cache.get(new, BACKBONES[0])
            if not cache.trouble and (found is None or not np.array_equal(found, vector)):
                return "wrong"
            cache.clear()
        return "right" if given == len(self.vectors) else "some vectors computed anew"

    def _forge(self, rng: np.random.Generator) -> None:
        """Rows exchanged between keys or backbones, cut, stretched, or of another kind."""
        connection = sqlite3.connect(self.path)
        rows = connection.execute("SELECT key, backbone, vector FROM features").fetchall()
        (key, backbone, vector), (_, _, other) = (rows[i] for i in rng.choice(len(rows), 2, replace=False))
        forged = [other, vector[:-4], vector + bytes(4), vector[4:], b"", None, "text", 7, 0.5, bytes(len(vector))]
        value = forged[rng.integers(len(forged))]
        connection.execute("UPDATE features SET vector = ? WHERE key = ? AND backbone = ?", (value, key, backbone))
        if rng.random() < 0.5:
            swapped = BACKBONES[backbone == BACKBONES[0]]
            connection.execute("UPDATE features SET backbone = ?, used = 'x' WHERE key = ?", (swapped, rows[0][0]))
        connection.commit()
        connection.close()


def mutate(content: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """One of: flipped bits, cut short, a block of zeros, another file in its place, bytes appended, a block moved."""
    kind = rng.integers(6)
    changed = bytearray(content)
    start, stop = np.sort(rng.integers(0, len(content) + 1, 2))
    if kind == 0:
        for place in rng.integers(0, len(content), 1 + rng.integers(4)):
            changed[place] ^= 1 << rng.integers(8)
    elif kind == 1:
        del changed[start:]
    elif kind == 2:
        changed[start:stop] = bytes(stop - start)
    elif kind == 3:
        changed = bytearray(other if rng.random() < 0.5 else content[:start] + other[start:])
    elif kind == 4:
        changed += rng.bytes(1 + rng.integers(5000))
    else:
        changed = changed[:start] + changed[stop:] + changed[start:stop]
    return bytes(changed)


class _Tiny(torch.nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = torch.nn.Parameter(torch.randn(8, 5, generator=generator))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (images @ self.weight).relu() + 1


def _tiny_network(seed: int) -> bytes:
    return onnx_bytes(_Tiny(seed), torch.zeros(1, 8), ("images", "features"), batches=False)
