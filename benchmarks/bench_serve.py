"""Many clients at once: throughput beside bare embedding in the same run, latency, memory, rows of features a second.

``python benchmarks/bench_serve.py [--seconds 60] [--clients 32]`` starts the service, teaches it glyphs, and writes
``benchmarks/records/serve.json``. Leave the machine alone meanwhile. Bare embedding is what the machine does without a
service: decode, embed and classify the same photos, before and after the clients; the mean of both counts.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from gddsg.bench.revision import code_revision
from gddsg.data.glyphs import GLYPHS, TRAIN_TYPEFACES, render_glyph
from gddsg.files import replace_file
from gddsg.photos.embedding import embed_photos
from gddsg.photos.model_backbone import ModelBackbone
from gddsg.photos.prediction import predict_photos
from gddsg.serve.uploads import UploadedPhoto, uploaded
from gddsg.store import SharedModel

RECORD = Path(__file__).parent / "records" / "serve.json"
CLASSES = 10


def jpegs(seed: int, n: int, side: int = 640) -> list[tuple[str, bytes]]:
    """Glyphs as photos of a usual size, with their classes."""
    from PIL import Image

    found = []
    for place in range(n):
        label = list(GLYPHS)[place % CLASSES]
        pixels = render_glyph(label, TRAIN_TYPEFACES[0], seed * 100_000 + place)
        out = io.BytesIO()
        Image.fromarray(np.asarray(pixels)).resize((side, side)).save(out, "JPEG", quality=90)
        found.append((label, out.getvalue()))
    return found


def bare_rate(path: Path, photos: list[UploadedPhoto], seconds: float) -> float:
    """Photos a second without a service."""
    model = SharedModel(path).read()
    assert model is not None
    backbone = ModelBackbone(path, None, None).load(model)
    model.check_answers()  # computes what is computed once
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        embedded = embed_photos(photos, backbone)
        predict_photos(model.predictor, embedded.photos, embedded.features, 5, None)
        done += len(photos)
    return done / (time.perf_counter() - began)


async def load(address: str, clients: int, seconds: float, requests: list[bytes]) -> dict[str, Any]:
    """What so many clients get who ask one thing after the other, each on a connection of its own.

    They write bytes that were put together beforehand and look at the answer later: on two cores shared with the
    service, a client library would take more time than what is measured.
    """
    host, port = address.removeprefix("http://").rsplit(":", 1)
    times: list[float] = []
    answers: list[bytes] = []
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        place = number
        while time.perf_counter() < end:
            began = time.perf_counter()
            writer.write(requests[place % len(requests)])
            answers.append(await _answer(reader))
            times.append(time.perf_counter() - began)
            place += clients
        writer.close()
        await writer.wait_closed()

    began = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(clients)))
    took = time.perf_counter() - began
    errors = [answer.decode()[:200] for answer in answers if not _is_prediction(answer)]
    return {
        "requests": len(times),
        "errors": len(errors),
        "first_errors": errors[:3],
        "requests_a_second": len(times) / took,
        **{f"p{q}_seconds": float(np.quantile(times, q / 100)) for q in (50, 95, 99)},
    }


async def _answer(reader: asyncio.StreamReader) -> bytes:
    """One answer, its first line and its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    return head[: head.index(b"\r\n")] + b"\n" + await reader.readexactly(int(fields[b"content-length"]))


def _is_prediction(answer: bytes) -> bool:
    first, _, body = answer.partition(b"\n")
    return first.startswith(b"HTTP/1.1 200") and len(json.loads(body)["predictions"]) > 0


def memory(pid: int) -> float:
    """Resident mebibytes of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=32)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gddsg"
        command = [sys.executable, "-m", "gddsg", "serve", str(path), "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split(" is at ")[1].split()[0]
            found = measure(address, process.pid, path, given.seconds, given.clients)
        finally:
            process.terminate()
            process.wait()
    print(json.dumps(found, indent=1))
    if given.seconds >= 60:
        replace_file(RECORD, json.dumps(found, indent=1).encode() + b"\n")


def measure(address: str, pid: int, path: Path, seconds: float, clients: int) -> dict[str, Any]:
    """All figures."""
    for label in list(GLYPHS)[:CLASSES]:
        files = [("files", (f"{i}.jpg", content)) for i, (own, content) in enumerate(jpegs(0, 200)) if own == label]
        httpx2.post(f"{address}/v1/classes/{label}/images", files=files, timeout=300).raise_for_status()
    contents = jpegs(1, 64)
    photos = [uploaded(f"{i}.jpg", content) for i, (_, content) in enumerate(contents)]
    requests = [_multipart(photo) for photo in photos]
    asyncio.run(load(address, clients, 3, requests))
    first, before = memory(pid), bare_rate(path, photos, seconds / 6)
    served = asyncio.run(load(address, clients, seconds, requests))
    after, last = bare_rate(path, photos, seconds / 6), memory(pid)
    dim = httpx2.get(f"{address}/v1/model").json()["feature_dim"]
    rows = np.random.default_rng(0).random((64, dim), dtype=np.float32)
    single = [_npy(row[None]) for row in rows]
    return {
        "revision": code_revision(),
        "cores": len(os.sched_getaffinity(0)),
        "clients": clients,
        "seconds": seconds,
        "photos": served,
        "bare_photos_a_second": [before, after],
        "share_of_bare": served["requests_a_second"] / ((before + after) / 2),
        "memory_mebibytes": [first, last],
        "features_one_a_request": asyncio.run(load(address, clients, seconds / 6, single)),
        "features_64_a_request": asyncio.run(load(address, 4, seconds / 6, [_npy(rows)])),
    }


def _multipart(photo: UploadedPhoto) -> bytes:
    files = [("files", (photo.name, photo.content))]
    return _posted(httpx2.Request("POST", "http://localhost/v1/predict", files=files))


def _npy(rows: np.ndarray[Any, Any]) -> bytes:
    out = io.BytesIO()
    np.save(out, rows)
    kind = {"Content-Type": "application/x-npy"}
    return _posted(httpx2.Request("POST", "http://localhost/v1/predict", content=out.getvalue(), headers=kind))


def _posted(request: httpx2.Request) -> bytes:
    """A request as it is sent."""
    body = request.read()
    fields = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    return f"POST {request.url.path} HTTP/1.1\r\n{fields}\r\n".encode() + body


if __name__ == "__main__":
    main()
