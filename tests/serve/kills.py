"""Kills of the service at random moments, under concurrent teaching, forgetting and predicting.

``python -m tests.serve.kills --rounds 100`` prints what was found as JSON, and writes it to
``benchmarks/records/serve-kills.json``; the exit code is 1 if anything was lost, doubled or left behind. Each client
keeps its own classes, and repeats what was under way at a kill by the same key.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
from PIL import Image

from gddsg.bench.revision import code_revision
from gddsg.files import replace_file

RECORD = Path(__file__).parents[2] / "benchmarks" / "records" / "serve-kills.json"
CLIENTS = 3
_LONGEST_LIFE = 3.0
_START_SECONDS = 180

_SERVER = """
import sys
from pathlib import Path
from tests.photos.tiny_backbone import Means
from gddsg.photos import model_backbone
model_backbone.load_backbone = lambda name, device=None: Means()
from gddsg.serve.run import serve
from gddsg.serve.studio import Studio
large = int(sys.argv[2])
studio = Studio(Path(sys.argv[1]), settings={"projection_dim": 32}, keep_photos=True, large_file=large)
serve(studio, "127.0.0.1", 0, ready=lambda address: print(address, flush=True))
"""


def photo(seed: int) -> bytes:
    """A picture that no other seed gives."""
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


class Server:
    """The service in a process of its own.

    Parameters
    ----------
    path : Path
        Of the model file.
    large : int
        Bytes from which on lessons go through the journal.
    """

    def __init__(self, path: Path, large: int) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GDDSG_CACHE": str(path.parent.parent / "cache")}
        environment["PYTHONPATH"] = os.pathsep.join(one for one in sys.path if one)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(path), str(large)], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self._process.stdout is not None
        timer = threading.Timer(_START_SECONDS, self._process.kill)
        timer.start()
        self.address = self._process.stdout.readline().strip()
        timer.cancel()
        if not self.address:
            raise RuntimeError("The service did not start.")

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]


class Client:
    """Teaches, forgets and renames classes of its own, and predicts; it knows what has to be there.

    Parameters
    ----------
    number : int
        Of the client.
    seed : int
        Of what it does.
    """

    def __init__(self, number: int, seed: int) -> None:
        self.number, self._draw = number, random.Random(seed)
        self.known: dict[str, set[int]] = {}  # seeds of the photos of each class
        self.faults: list[str] = []
        self.counts: Counter[str] = Counter()
        self._under_way: tuple[str, dict[str, Any]] | None = None

    def live(self, address: str, stop: threading.Event) -> None:
        """Ask for one thing after the other until the service is gone."""
        with httpx2.Client(base_url=address, timeout=60) as http:
            while not stop.is_set():
                try:
                    self._change(http)
                    self._predict(http)
                except httpx2.TransportError:  # the kill
                    return

    def _change(self, http: httpx2.Client) -> None:
        """A change; the one that was under way at the last kill first, by its own key."""
        if self._under_way is None:
            self._under_way = (f"{self.number}-{self._draw.randrange(2**60)}", self._choose())
        else:
            self.counts["asked again"] += 1
        key, wanted = self._under_way
        answer = self._send(http, wanted, {"Idempotency-Key": key})
        if answer.status_code == 503:
            return
        if answer.status_code != 200:
            self.faults.append(f"{wanted['kind']}: {answer.status_code} {answer.text[:300]}")
        else:
            self._note(wanted)
            self.counts[wanted["kind"]] += 1
        self._under_way = None

    def _choose(self) -> dict[str, Any]:
        kind, names = self._draw.random(), sorted(self.known)
        new = f"{self.number}.{self._draw.randrange(2**40)}"
        seeds = [self._draw.randrange(2**50) for _ in range(self._draw.randint(1, 3))]
        if not names or kind < 0.4:
            return {"kind": "teach", "name": new, "seeds": seeds}
        name = self._draw.choice(names)
        if kind < 0.7:
            return {"kind": "teach", "name": name, "seeds": seeds}
        return {"kind": "rename", "name": name, "new": new} if kind < 0.85 else {"kind": "forget", "name": name}

    @staticmethod
    def _send(http: httpx2.Client, wanted: dict[str, Any], headers: dict[str, str]) -> httpx2.Response:
        path = f"/v1/classes/{wanted['name']}"
        if wanted["kind"] == "teach":
            files = [("files", (f"{seed}.png", photo(seed))) for seed in wanted["seeds"]]
            return http.post(f"{path}/images", files=files, headers=headers)
        if wanted["kind"] == "rename":
            return http.patch(path, json={"name": wanted["new"]}, headers=headers)
        return http.delete(path, headers=headers)

    def _note(self, wanted: dict[str, Any]) -> None:
        if wanted["kind"] == "teach":
            self.known.setdefault(wanted["name"], set()).update(wanted["seeds"])
        elif wanted["kind"] == "rename":
            self.known[wanted["new"]] = self.known.pop(wanted["name"])
        else:
            del self.known[wanted["name"]]

    def _predict(self, http: httpx2.Client) -> None:
        answer = http.post("/v1/predict", files=[("files", ("a.png", photo(self._draw.randrange(2**50))))])
        self.counts["predictions"] += 1
        if answer.status_code not in (200, 503) and "no_classes" not in answer.text:
            self.faults.append(f"predict: {answer.status_code} {answer.text[:300]}")

    def expected(self) -> list[dict[str, int]]:
        """Numbers of photos of its classes: as told, or as they are if what was under way at a kill was done."""
        told = {name: len(seeds) for name, seeds in self.known.items()}
        if self._under_way is None:
            return [told]
        then, wanted = dict(self.known), self._under_way[1]
        other = Client(self.number, 0)
        other.known = {name: set(seeds) for name, seeds in then.items()}
        other._note(wanted)
        return [told, {name: len(seeds) for name, seeds in other.known.items()}]


def attack(rounds: int, seed: int, folder: Path, large: int = 2**60) -> dict[str, Any]:
    """Kill the service so many times, and look each time at what the next one finds.

    Parameters
    ----------
    rounds, seed : int
        How many kills, and of what chance.
    folder : Path
        Empty.
    large : int
        Bytes from which on lessons go through the journal.
    """
    (folder / "models").mkdir()
    path, draw = folder / "models" / "m.gddsg", random.Random(seed)
    clients = [Client(number, draw.randrange(2**32)) for number in range(CLIENTS)]
    faults: list[str] = []
    server = Server(path, large)
    try:
        for number in range(rounds):
            stop = threading.Event()
            threads = [threading.Thread(target=client.live, args=(server.address, stop)) for client in clients]
            for thread in threads:
                thread.start()
            if number % 2 == 0:  # on a busy machine every kill would come before anything was done
                _wait_for_change(clients)
            time.sleep(draw.uniform(0.05, _LONGEST_LIFE))
            server.kill()
            stop.set()
            for thread in threads:
                thread.join()
            server = Server(path, large)
            faults += [f"round {number}: {fault}" for fault in _check(server.address, clients, path)]
    finally:
        server.kill()
    counts = sum((client.counts for client in clients), Counter())
    return {"kills": rounds, "counts": dict(counts), "faults": [*faults, *(f for c in clients for f in c.faults)]}


def _wait_for_change(clients: list[Client]) -> None:
    """Until one more change was told, or the clients have had long enough."""
    changes = lambda: sum(client.counts[kind] for client in clients for kind in ("teach", "rename", "forget"))  # noqa: E731
    before, end = changes(), time.monotonic() + _START_SECONDS
    while changes() == before and time.monotonic() < end:
        time.sleep(0.02)


def _check(address: str, clients: list[Client], path: Path) -> list[str]:
    """What is not as it was told, or was left behind."""
    found: dict[str, int] = {}
    for one in httpx2.get(f"{address}/v1/classes", timeout=60).json()["classes"]:
        found[one["name"]] = one["photos"]
    faults = []
    for client in clients:
        own = {name: n for name, n in found.items() if name.startswith(f"{client.number}.")}
        if own not in client.expected():
            faults.append(f"client {client.number}: {own} in place of {client.expected()}")
    left = {one.name for one in path.parent.iterdir()} - {path.name, f"{path.name}.studio"}
    if left:
        faults.append(f"left behind: {left}")
    return faults


def main() -> int:
    """Attack as the arguments say, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    results = []
    for share, large in ((given.rounds - given.rounds // 2, 2**60), (given.rounds // 2, 0)):
        if share:
            with tempfile.TemporaryDirectory() as folder:
                results.append(attack(share, given.seed, Path(folder), large))
    found = json.dumps({"revision": code_revision(), "attacks": results}, indent=1) + "\n"
    sys.stdout.write(found)
    if given.rounds >= 100:
        replace_file(RECORD, found.encode())
    return 1 if any(result["faults"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
